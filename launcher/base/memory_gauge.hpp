// A memory_gauge says how much memory is left: on this machine, and below the limits of the memory
// cgroups that this process is in (memory.max and memory.high of version 2, that of version 1).
//
// What is only cached of files counts as left: the kernel gives it up before anything fails.
//
// Thread rule: any thread. It reads files of the kernel, which may wait where memory is short.
// Units: bytes. Errors: what cannot be read is not in the answer. The cgroups are those in which
// this process was when the gauge was made.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

struct memory_level {
  std::string where;  // "this machine", or "cgroup " and its folder
  std::uint64_t left = 0;
  std::uint64_t most = 0;  // that there is
  // Of the last ten seconds, how much all processes there have waited for memory; 0: not at all, or
  // the kernel does not say so.
  double stalled_percent = 0;
};

class memory_gauge {
 public:
  // `root`: before the paths of the system's files, for tests.
  explicit memory_gauge(std::string root = {});

  // The machine first.
  std::vector<memory_level> read() const;

 private:
  std::string root_;
  std::vector<std::string> groups_;  // of version 2
  std::vector<std::string> older_groups_;
};

// What that process holds of its own, and not of files; 0: it is gone, or has no memory.
std::uint64_t anonymous_memory(pid_t process);

}  // namespace ddprun::launcher
