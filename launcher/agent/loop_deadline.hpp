// The loop_deadline wakes the loop for the next deadline of its machine, and notices when the loop
// stood still: messages that waited meanwhile must count neither against their senders nor against
// this node.
//
// Thread rule: one thread, that of the executor; `late` is called from inside notice() and from the
// loop, `passed` from the loop, and neither after destruction.
#pragma once

#include "rendezvous/base/lateness_watch.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/base/time.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <optional>

namespace ddprun::launcher {

class loop_deadline {
 public:
  struct handlers {
    std::function<void(duration by)> late;
    std::function<void()> passed;  // after the messages that had come by then
    std::function<time_point()> now = std::chrono::steady_clock::now;  // tests have another clock
  };

  loop_deadline(boost::asio::any_io_executor executor, handlers told);

  // The deadline, from now on; none: there is none. Call it after each event.
  void arm(std::optional<time_point> due);
  // Calls `late` if the loop stood still. Call it before each event.
  void notice();
  // No deadline is waited for, also if the loop has woken for it already: `passed` is not called
  // any more, unless a deadline is armed again.
  void stop();

 private:
  void wake();

  boost::asio::any_io_executor executor_;
  handlers told_;
  boost::asio::steady_timer timer_;
  std::optional<time_point> armed_for_;
  lateness_watch lateness_;
  lifetime alive_;  // until the next stop()
};

}  // namespace ddprun::launcher
