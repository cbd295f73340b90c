#include "launcher/network/round_port.hpp"

#include "launcher/process/start_failure.hpp"
#include "rendezvous/net/resolve.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher {
namespace {

// A number that is free on one address may be in use on another.
constexpr int numbers_tried_max = 16;

bool is_missing(const error_code& error) {
  return error == boost::system::errc::address_not_available ||
         error == boost::system::errc::address_family_not_supported;
}

bool is_loopback(const std::string& address) {
  const auto numeric = net::numeric_address(address);
  return numeric && numeric->is_loopback();
}

std::string seconds(std::chrono::seconds value) {
  return std::to_string(value.count()) + " s";
}

}  // namespace

round_port::round_port(net::executor where, std::uint16_t fixed, net::keep_alive limits,
                       handlers told)
    : fixed_(fixed),
      keep_alive_(limits),
      handlers_(std::move(told)),
      where_(where),
      timer_(where) {}

void round_port::open(std::vector<std::string> addresses) {
  forget_timer();
  // The port is still open for this leader: no other program could take it between the rounds.
  if (kept_ != 0 && addresses == addresses_) return opened(kept_);
  close();
  addresses_ = std::move(addresses);
  tries_left_ = busy_limit / pause_between_tries;
  try_to_open();
}

void round_port::try_to_open() {
  std::string problem;
  const result<std::uint16_t> port = listen(problem);
  if (port) {
    for (net::listener& each : listeners_) {
      each.start({[this](net::tcp::socket socket) {
                    if (serving_) handlers_.accepted(std::move(socket));
                  },
                  handlers_.trouble});
    }
    return opened(*port);
  }
  // The previous round may still hold a fixed port. Any other port can be replaced by another
  // number.
  const bool busy = fixed_ != 0 && port.error() == boost::asio::error::address_in_use;
  const bool passes = busy || is_shortage(port.error().value());
  if (!passes || tries_left_ == 0) {
    if (busy) {
      problem += ", tried for " + seconds(busy_limit) +
                 ": end the program that holds it, or choose another --master-port";
    }
    return handlers_.opened(0, problem);
  }
  // Only the first try reports the problem, so that retries do not repeat the line.
  if (tries_left_ == busy_limit / pause_between_tries) {
    handlers_.trouble(problem + "; trying for " + seconds(busy_limit));
  }
  --tries_left_;
  after(pause_between_tries, [this] { try_to_open(); });
}

result<std::uint16_t> round_port::listen(std::string& problem) {
  if (addresses_.empty()) return listen_on_all_of_them(fixed_, problem);
  for (int number = 1;; ++number) {
    const auto port = listen_on_all_of_them(fixed_, problem);
    if (port) return port;
    const bool is_taken = port.error() == boost::asio::error::address_in_use;
    if (is_taken && fixed_ == 0 && number < numbers_tried_max) continue;
    if (is_taken || is_shortage(port.error().value())) return port;
    // The address may have gone a moment ago, or may need a zone: listen on all of them instead.
    addresses_.clear();
    return listen_on_all_of_them(fixed_, problem);
  }
}

// The first address decides the number if none is fixed.
result<std::uint16_t> round_port::listen_on_all_of_them(std::uint16_t number,
                                                        std::string& problem) {
  listeners_.clear();
  if (addresses_.empty())
    return listeners_.emplace_back(where_, keep_alive_).open("", number, problem);
  error_code last;
  for (const std::string& address : addresses_) {
    const auto port = listeners_.emplace_back(where_, keep_alive_).open(address, number, problem);
    if (port) {
      number = *port;
      continue;
    }
    last = port.error();
    listeners_.pop_back();
    if (is_loopback(address) && is_missing(last)) continue;
    listeners_.clear();
    return last;
  }
  if (listeners_.empty()) return last;
  return number;
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
  listeners_.clear();
  kept_ = 0;
  serving_ = false;
}

// The timer may have expired, and this object may be gone, before the handler runs.
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

}  // namespace ddprun::launcher
