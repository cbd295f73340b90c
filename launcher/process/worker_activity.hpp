// Tells whether workers that were asked to end are busy (saving a snapshot) or hang, by what their
// process groups have done since the last look.
//
// Only workers with a handler for SIGTERM count: others die of it, or ignore it. A group is busy
// while one of its processes waits for a disk, or has written 64 KiB since the last look; or has
// used a twentieth of a processor, or may run at this look and at the last one (on a machine that
// has less than that for it), if the group has written as much since the first look. Processor time
// alone proves nothing: a rank spins while it waits in an NCCL collective for ranks that are gone.
//
// Thread rule: the main thread. It reads the process table.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

class worker_activity {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  // `groups` are the process groups of the live workers. False at a first look.
  bool are_busy(const std::vector<pid_t>& groups, time_point now);

 private:
  struct usage {
    std::uint64_t ticks = 0;  // of processor time
    std::uint64_t bytes = 0;  // written
    bool waits_for_disk = false;
    bool may_run = false;  // it runs, or waits for a processor
  };
  static usage usage_of(pid_t process);

  std::map<pid_t, usage> last_;             // by process
  std::map<pid_t, std::uint64_t> written_;  // by group, since the first look
  time_point looked_at_{};
};

}  // namespace ddprun::launcher
