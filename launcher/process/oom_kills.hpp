// Tells an OOM kill, which is the kernel's, from a SIGKILL that somebody has sent.
//
// What counts, in this order:
// - the counts of our own memory cgroup, and of that in which the workers run (version 2,
//   `oom_kill` of memory.events; version 1, that of memory.oom_control): they have the processes of
//   this job alone, whoever else shares the host, and whatever the limit was that was reached;
// - else the kernel's log, where it may be read (/dev/kmsg): it names the process;
// - else the host's count (/proc/vmstat), which is anybody's.
// A count that has not grown within the last seconds says nothing of a worker that has just ended.
//
// It reads /proc, /sys and /dev/kmsg, which does not block.
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

// The line "oom_kill N" of a file. None: there is no such line, or no such file.
std::optional<std::uint64_t> count_oom_kills(const std::string& file);

// The process that a line of the kernel's log says was killed as memory ran out; none: it says
// something else.
std::optional<pid_t> oom_killed_process(std::string_view line);

// The files with the counts of our own memory cgroups; empty: there is none, or it does not count.
std::vector<std::string> own_oom_counters();

// One count, looked at now and then.
class recent_oom_kills {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds interval{1};

  bool is_due(clock::time_point now) const { return !last_at_ || now - *last_at_ >= interval; }
  // To be called when it is due.
  void notice(clock::time_point now, std::optional<std::uint64_t> count);
  // Since the count before the last: one to two intervals ago, or as long as nobody noticed.
  bool is_any(std::optional<std::uint64_t> counted_now) const;
  // One of those, if there is any, is not to count.
  void discount(std::optional<std::uint64_t> counted_now);

 private:
  std::uint64_t discounted_ = 0;
  std::optional<std::uint64_t> before_, last_;  // without those that were discounted until then
  std::optional<clock::time_point> last_at_;
};

// What the kernel's log has said since this was made.
class oom_log {
 public:
  // `has_our_numbers`: see has_process_numbers_of_kernel_log(). Others are for tests.
  explicit oom_log(const std::string& file = kernel_log::system_file,
                   bool has_our_numbers = has_process_numbers_of_kernel_log());
  // The log can be read, and its numbers of processes are ours.
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

  // `own` and `host`: files with a count; for tests others than the system's.
  explicit oom_watch(std::vector<std::string> own = own_oom_counters(),
                     std::string host = "/proc/vmstat");

  // The cgroup of the workers (version 2); empty: they are in our own.
  void workers_cgroup(const std::string& folder);
  // To be called now and then; looks at most once an interval.
  void notice(clock::time_point now);
  // A process of ours that is no worker has just been ended by SIGKILL, which we have not sent: if
  // the kernel did it, its count has grown by one that says nothing of workers.
  void discount();
  // That process has just been ended by SIGKILL: why the kernel did it, as a sentence's end; empty:
  // nothing says that it did.
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
