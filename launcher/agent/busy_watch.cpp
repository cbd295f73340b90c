#include "launcher/agent/busy_watch.hpp"

#include <chrono>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr auto pause_between_looks = std::chrono::milliseconds(500);

}  // namespace

busy_watch::busy_watch(boost::asio::any_io_executor executor,
                       std::function<std::vector<pid_t>()> leaders, std::function<void()> busy)
    : timer_(std::move(executor)), leaders_(std::move(leaders)), busy_(std::move(busy)) {}

void busy_watch::start() {
  activity_ = {};
  look_later();  // not at once: it reads the process table, which would delay a restart
}

void busy_watch::stop() {
  timer_.cancel();
}

void busy_watch::look() {
  const std::vector<pid_t> groups = leaders_();
  if (groups.empty()) return;
  if (activity_.are_busy(groups, std::chrono::steady_clock::now())) busy_();
  look_later();
}

void busy_watch::look_later() {
  timer_.expires_after(pause_between_looks);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) look();
  });
}

}  // namespace ddprun::launcher
