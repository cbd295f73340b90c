#include "launcher/node/health_cool_down.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace ddprun::launcher {
namespace {

constexpr std::chrono::hours until_forgotten{1};
constexpr unsigned doublings_max = 5;

}  // namespace

duration health_cool_down::pause() const {
  if (times_ < 2) return duration::zero();
  return step_ * (1 << std::min(times_ - 2, doublings_max));
}

std::string health_cool_down::judge(const std::string& found, time_point now) {
  if (!found.empty()) {
    // A cool-down that was cut short counts as the same failure.
    if (last_.empty()) times_ = times_ > 0 && now - last_seen_ < until_forgotten ? times_ + 1 : 1;
    last_ = found;
    last_seen_ = now;
    return found;
  }
  if (last_.empty()) return {};
  const duration left = last_seen_ + pause() - now;
  if (left <= duration::zero()) {
    last_.clear();
    return {};
  }
  // The text does not have the remaining time: if it changed with each look, each look would be
  // news.
  return fmt::format(
      "{} (its checks pass now, but this was time {} within an hour: they have to pass for {})",
      last_, times_, to_text(pause()));
}

}  // namespace ddprun::launcher
