// Whether workers that were asked to end are at something (they save a snapshot), or hang: seen
// from outside, by what their process groups have done since the last look.
//
// Only such count as have a handler for SIGTERM: the others die of it, or do not care. A group is
// at something while one of its processes waits for a disk, or has written 64 KiB since the last
// look; or has used a twentieth of a processor, where the group has written as much since the first
// one. Processor time alone shows nothing: a rank that waits behind a collective of NCCL for ranks
// that are gone spins.
//
// Thread rule: the main thread. Costs a look at the table of processes.
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

  // `groups`: the process groups of the workers that live, by their leaders. False at a first look.
  bool are_busy(const std::vector<pid_t>& groups, time_point now);

 private:
  struct usage {
    std::uint64_t ticks = 0;  // of a processor
    std::uint64_t bytes = 0;  // written
    bool waits_for_disk = false;
  };
  static usage usage_of(pid_t process);

  std::map<pid_t, usage> last_;             // by process
  std::map<pid_t, std::uint64_t> written_;  // by group, since the first look
  time_point looked_at_{};
};

}  // namespace ddprun::launcher
