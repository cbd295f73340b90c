#include "launcher/agent/loop_deadline.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace ddprun::launcher {

loop_deadline::loop_deadline(boost::asio::any_io_executor executor, handlers told)
    : executor_(executor), told_(std::move(told)), timer_(executor) {}

void loop_deadline::notice() {
  if (const auto late = lateness_.notice(told_.now())) told_.late(*late);
}

void loop_deadline::arm(std::optional<time_point> due) {
  // Of a deadline that stays, too: else the loop is late from now on, however soon it turns. One
  // that has passed during the effects of this step stays expected, and the loop is late.
  if (!due) {
    lateness_.expect_nothing();
  } else if (const time_point now = told_.now(); due != armed_for_ || *due > now) {
    lateness_.expect(std::max(*due, now));
  }
  if (due == armed_for_) return;
  armed_for_ = due;
  timer_.cancel();
  if (!due) return;
  timer_.expires_at(*due);
  timer_.async_wait(
      while_alive(alive_.watch(), [this, due = *due](boost::system::error_code error) {
        // A wake-up that was queued before the timer was set again is not for this deadline.
        if (!error && armed_for_ == due) wake();
      }));
}

void loop_deadline::stop() {
  arm(std::nullopt);
  alive_.begin_anew();
}

void loop_deadline::wake() {
  armed_for_.reset();
  const lifetime::watcher watch = alive_.watch();
  notice();
  if (watch.expired()) return;  // `late` has stopped it
  lateness_.expect(told_.now());
  // Messages that have arrived meanwhile must be handled before a deadline counts against their
  // sender: the loop polls the sockets once between this handler and the next.
  boost::asio::post(executor_, while_alive(alive_.watch(), [this] {
                      boost::asio::post(executor_,
                                        while_alive(alive_.watch(), [this] { told_.passed(); }));
                    }));
}

}  // namespace ddprun::launcher
