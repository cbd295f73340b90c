// The kernel's count of processes that it has killed for want of memory, of the whole host: a
// SIGKILL by it is told from one by hand.
//
// Thread rule: any thread. It reads /proc, which does not block.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace ddprun::launcher {

// Since the host has started (`oom_kill` of /proc/vmstat). None: this kernel does not count them.
std::optional<std::uint64_t> count_oom_kills();

// Whether the kernel has killed something within the last seconds. Other programs share the host,
// so an older count says nothing of a worker that has just ended.
//
// Thread rule: one thread, a plain value.
class recent_oom_kills {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds interval{1};

  // To be called now and then; counts at most once an interval.
  void notice(clock::time_point now, std::optional<std::uint64_t> (*count)() = count_oom_kills);
  // Since the count before the last: one to two intervals ago, or as long as nobody noticed.
  bool is_any(std::optional<std::uint64_t> counted_now) const;

 private:
  std::optional<std::uint64_t> before_, last_;
  std::optional<clock::time_point> last_at_;
};

}  // namespace ddprun::launcher
