// Ties the agent to the launcher's process on this node: an mpirun that is killed cannot end what
// it has started, and a process that has left its exchange does not notice.
//
// Thread rule: created before or after other threads, destroyed by its creator. It waits on a
// thread of its own with all signals blocked.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <thread>

namespace ddprun::launcher::hosts::mpi {

class lifeline {
 public:
  // Sends SIGTERM to this process once that process has ended; 0: does nothing.
  explicit lifeline(int launcher);
  lifeline(const lifeline&) = delete;
  lifeline& operator=(const lifeline&) = delete;
  ~lifeline();

 private:
  void wait(int launcher) const;

  unique_fd process_;  // a pidfd; empty on kernels before 5.3
  pipe_ends end_;      // closed by the owner
  std::thread waiting_;
};

}  // namespace ddprun::launcher::hosts::mpi
