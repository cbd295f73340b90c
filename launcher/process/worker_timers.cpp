#include "launcher/process/worker_timers.hpp"

#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/utf8.hpp"

#include <algorithm>

namespace ddprun::launcher::workers {
namespace {

// A longer limit never expires.
constexpr double limit_seconds_max = 1e9;
constexpr std::size_t scope_bytes_max = 120;

// The message took a moment, so the limit that was asked for is the next round number.
constexpr duration limit_step = std::chrono::milliseconds(100);

duration rounded_up(duration value) {
  return (value + limit_step - duration(1)) / limit_step * limit_step;
}

}  // namespace

bool worker_timers::take(const timer_request& request, time_point now, double unix_now) {
  const auto key = std::pair(request.process, request.scope);
  if (request.expires_at < 0) {
    timers_.erase(key);
    return true;
  }
  if (timers_.size() >= count_max && !timers_.contains(key)) return false;
  const double seconds = std::clamp(request.expires_at - unix_now, 0.0, limit_seconds_max);
  const auto left = std::chrono::duration_cast<duration>(std::chrono::duration<double>(seconds));
  timers_[key] = {now + left, left, request.signal};
  return true;
}

std::optional<time_point> worker_timers::next_deadline() const {
  std::optional<time_point> next;
  for (const auto& [key, one] : timers_)
    next = next ? std::min(*next, one.deadline) : one.deadline;
  return next;
}

std::vector<expired_timer> worker_timers::expire(time_point now) {
  std::map<std::int64_t, std::pair<time_point, expired_timer>> first;
  const auto due = next_deadline();
  const bool has_stalled = due && now - *due > stall;
  for (auto one = timers_.begin(); one != timers_.end();) {
    const auto& [process, scope] = one->first;
    entry& what = one->second;
    if (has_stalled && what.deadline <= now) what.deadline = now + moment_after_stall;
    if (what.deadline > now) {
      ++one;
      continue;
    }
    const auto [place, is_new] = first.try_emplace(process);
    auto& [deadline, told] = place->second;
    const bool counts_more =
        (what.signal != 0) != (told.signal != 0) ? what.signal != 0 : what.deadline < deadline;
    if (is_new || counts_more) {
      deadline = what.deadline;
      told = {process, scope, rounded_up(what.limit), what.signal};
    }
    one = timers_.erase(one);
  }
  std::vector<expired_timer> expired;
  for (auto& [process, one] : first)
    expired.push_back(std::move(one.second));
  keep_if([&](std::int64_t process) {
    const auto found = first.find(process);
    return found == first.end() || found->second.second.signal == 0;
  });
  return expired;
}

void worker_timers::keep_if(const std::function<bool(std::int64_t process)>& stays) {
  std::erase_if(timers_, [&](const auto& one) { return !stays(one.first.first); });
}

std::string describe(const expired_timer& timer) {
  std::string scope(first_of(timer.scope, scope_bytes_max));
  if (scope.size() < timer.scope.size()) scope += "...";
  return "its timer \"" + in_one_line(std::move(scope)) + "\" expired after " +
         to_text(timer.limit);
}

}  // namespace ddprun::launcher::workers
