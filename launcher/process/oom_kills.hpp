// Distinguishes OOM kills by the kernel from a SIGKILL that somebody has sent.
//
// The sources, in this order:
// - the counters of our own memory cgroup, and of the workers' (version 2: `oom_kill` in
//   memory.events; version 1: in memory.oom_control). They count only processes of this job,
//   whatever limit was reached;
// - otherwise the kernel's log, if it is readable (/dev/kmsg), which names the process;
// - otherwise the host's counter (/proc/vmstat), which counts any process.
// A counter that has not grown in the last seconds says nothing about a worker that has just ended.
//
// It reads /proc, /sys and /dev/kmsg, which do not block.
#pragma once

#include "launcher/base/kernel_log.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

// Returns N of the line "oom_kill N" in a file. None: there is no such line or file.
std::optional<std::uint64_t> count_oom_kills(const std::string& file);

// Returns the process that was killed for lack of memory, according to a line of the kernel's log;
// none: the line says something else.
std::optional<pid_t> oom_killed_process(std::string_view line);

// The counter files of our own memory cgroups; empty: there is none, or it has no counter.
std::vector<std::string> own_oom_counters();

// A counter that is read from time to time.
class recent_oom_kills {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds interval{1};

  bool is_due(clock::time_point now) const { return !last_at_ || now - *last_at_ >= interval; }
  // Call it when it is due.
  void notice(clock::time_point now, std::optional<std::uint64_t> count);
  // True if it has grown since the reading before the last, which was one to two intervals ago, or
  // longer without a call of notice().
  bool is_any(std::optional<std::uint64_t> counted_now) const;
  // Ignores one of those kills, if there is any.
  void discount(std::optional<std::uint64_t> counted_now);

 private:
  std::uint64_t discounted_ = 0;
  std::optional<std::uint64_t> before_, last_;  // without the kills that were discounted by then
  std::optional<clock::time_point> last_at_;
};

// The OOM kills in the kernel's log since this was created.
class oom_log {
 public:
  // Tests pass other arguments than has_process_numbers_of_kernel_log().
  explicit oom_log(const std::string& file = kernel_log::system_file,
                   bool has_our_numbers = has_process_numbers_of_kernel_log());
  // The log is readable, and its PIDs are of our namespace.
  bool is_readable() const { return log_ && log_->is_readable(); }
  bool names(pid_t process);

 private:
  static constexpr std::size_t killed_max = 1024;
  std::optional<kernel_log> log_;
  std::set<pid_t> killed_;
};

class oom_watch {
 public:
  using clock = recent_oom_kills::clock;

  // `own` and `host` are counter files; tests pass others than the system's.
  explicit oom_watch(std::vector<std::string> own = own_oom_counters(),
                     std::string host = "/proc/vmstat");

  // The cgroup of the workers (version 2); empty: they are in our own.
  void workers_cgroup(const std::string& folder);
  // Call it regularly; it reads the counters at most once per interval.
  void notice(clock::time_point now);
  // SIGKILL has just ended a process of ours that is no worker, and it was not ours. If the kernel
  // has sent it, its counter has grown by one that says nothing about workers.
  void discount();
  // SIGKILL has just ended that process: returns why the kernel has sent it, for the end of a
  // sentence; empty: there is no sign that it has.
  std::string reason(pid_t process);

 private:
  std::optional<std::uint64_t> count_own() const;

  std::vector<std::string> own_files_;
  std::string workers_file_;
  std::string host_file_;
  recent_oom_kills own_, host_;
  oom_log log_;
};

// How each reason() begins.
inline constexpr std::string_view out_of_memory = "out of memory: ";

}  // namespace ddprun::launcher
