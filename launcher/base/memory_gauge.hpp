// A memory_gauge says how much memory is left: on this machine, and within the limits of this
// process's memory cgroups (memory.max and memory.high of version 2, memory.limit_in_bytes of
// version 1).
//
// File cache counts as free: the kernel drops it before anything fails.
//
// Thread rule: any thread. It reads files of the kernel, which may block if memory is short. Units:
// bytes. Errors: what cannot be read is missing in the answer. The cgroups are those of this
// process when the gauge was created.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

struct memory_level {
  std::string where;  // "this machine", or "cgroup " and its folder
  std::uint64_t left = 0;
  std::uint64_t most = 0;  // in total
  // The share of the last ten seconds in which all processes there waited for memory; 0: none, or
  // the kernel does not report it.
  double stalled_percent = 0;
};

class memory_gauge {
 public:
  // `root` is prepended to the paths of system files, for tests.
  explicit memory_gauge(std::string root = {});

  // The machine comes first.
  std::vector<memory_level> read() const;

 private:
  std::string root_;
  std::vector<std::string> groups_;  // of version 2
  std::vector<std::string> older_groups_;
};

// The process's own memory without files; 0: it is gone, or has none.
std::uint64_t anonymous_memory(pid_t process);

}  // namespace ddprun::launcher
