#include "launcher/agent/round_port.hpp"

#include <utility>

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds pause_between_tries{100};

std::string seconds(std::chrono::seconds value) {
  return std::to_string(value.count()) + " s";
}

}  // namespace

round_port::round_port(net::executor where, std::uint16_t fixed, handlers told)
    : fixed_(fixed), handlers_(std::move(told)), listener_(where), timer_(where) {}

void round_port::open() {
  forget_timer();
  if (kept_ != 0) return opened(kept_);
  tries_left_ = fixed_ != 0 ? busy_limit / pause_between_tries : 0;
  try_to_open();
}

void round_port::try_to_open() {
  std::string problem;
  const result<std::uint16_t> port = listener_.open("", fixed_, problem);
  if (port) {
    listener_.start({[this](net::tcp::socket socket) {
                       if (serving_) handlers_.accepted(std::move(socket));
                     },
                     handlers_.trouble});
    return opened(*port);
  }
  const bool busy = port.error() == boost::asio::error::address_in_use;
  if (!busy || tries_left_ == 0) {
    if (busy && fixed_ != 0) {
      problem += ", tried for " + seconds(busy_limit) +
                 ": end the program that holds it, or choose another --master-port";
    }
    return handlers_.opened(0, problem);
  }
  if (tries_left_ == busy_limit / pause_between_tries) {
    handlers_.trouble(problem + "; trying for " + seconds(busy_limit));
  }
  --tries_left_;
  after(pause_between_tries, [this] { try_to_open(); });
}

void round_port::opened(std::uint16_t port) {
  serving_ = true;
  kept_ = fixed_;
  handlers_.opened(port, {});
}

void round_port::pause() {
  if (kept_ == 0) return close();
  serving_ = false;
  after(keep_limit, [this] { close(); });
}

void round_port::close() {
  forget_timer();
  listener_.close();
  kept_ = 0;
  serving_ = false;
}

// It may have expired, and this be gone, before its handler runs.
void round_port::after(duration time, std::function<void()> what) {
  forget_timer();
  timer_.expires_after(time);
  timer_.async_wait([what = std::move(what), turns = turns_, turn = *turns_](error_code error) {
    if (!error && *turns == turn) what();
  });
}

void round_port::forget_timer() {
  ++*turns_;
  timer_.cancel();
}

}  // namespace ddprun
