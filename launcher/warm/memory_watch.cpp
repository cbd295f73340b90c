#include "launcher/warm/memory_watch.hpp"

#include "launcher/base/size_text.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher::warm {
namespace {

constexpr std::uint64_t mib = 1024 * 1024;
constexpr double stalled_percent_max = 10;

// With a large distance to the reserve, even a fast worker cannot use it up before the next look.
bool are_near(const memory_levels& levels) {
  return std::any_of(levels.begin(), levels.end(), [](const memory_level& one) {
    return one.left / 4 < memory_reserve(one.most);
  });
}

}  // namespace

std::uint64_t memory_reserve(std::uint64_t most) {
  return std::clamp(most / 20, 64 * mib, 1024 * mib);
}

std::string shortage_of(const memory_levels& levels) {
  for (const memory_level& one : levels) {
    const std::string in = (one.where.starts_with("cgroup") ? " in " : " on ") + one.where;
    if (one.left < memory_reserve(one.most))
      return size_text(one.left) + " of " + size_text(one.most) + " are left" + in;
    if (one.stalled_percent >= stalled_percent_max)
      return "all processes" + in + " have waited for it " +
             std::to_string(static_cast<int>(one.stalled_percent)) + " % of the time";
  }
  return {};
}

bool have_room_for(const memory_levels& levels, std::uint64_t bytes) {
  return std::all_of(levels.begin(), levels.end(), [bytes](const memory_level& one) {
    return one.stalled_percent < stalled_percent_max / 2 &&
           one.left >= 2 * memory_reserve(one.most) + bytes;
  });
}

memory_watch::memory_watch(boost::asio::any_io_executor executor, options values, events handlers)
    : options_(std::move(values)),
      handlers_(std::move(handlers)),
      timer_(executor),
      reading_(executor) {}

void memory_watch::start() {
  if (std::exchange(is_looking_, true)) return;
  look_later({});
}

void memory_watch::await_room_for(std::uint64_t bytes) {
  is_short_ = true;
  needed_ = bytes;
  room_since_.reset();
  rest_ = rest_.count() == 0 ? options_.rest : std::min(2 * rest_, options_.rest_max);
  start();
}

void memory_watch::look_later(std::chrono::milliseconds pause) {
  timer_.expires_after(pause);
  timer_.async_wait(while_alive(alive_.watch(), [this](boost::system::error_code error) {
    if (!error) look();
  }));
}

void memory_watch::look() {
  is_looking_ = is_short_ || handlers_.is_wanted();
  if (!is_looking_) return;
  if (!options_.read) return judge({});
  // If no thread can be started, the levels are unknown, and the system lacks more than memory.
  reading_.start(options_.read, [this](const std::optional<memory_levels>& levels) {
    judge(levels.value_or(memory_levels{}));
  });
}

void memory_watch::judge(const memory_levels& levels) {
  // The next look is armed first, because a handler may destroy this.
  look_later(are_near(levels) ? options_.pause_near : options_.pause);
  if (!is_short_) {
    const std::string why = shortage_of(levels);
    if (!why.empty()) handlers_.is_short(why);
    return;
  }
  if (!have_room_for(levels, needed_)) return room_since_.reset();
  const time_point now = std::chrono::steady_clock::now();
  if (!room_since_) room_since_ = now;
  if (now - *room_since_ < rest_) return;
  is_short_ = false;
  handlers_.has_room();
}

}  // namespace ddprun::launcher::warm
