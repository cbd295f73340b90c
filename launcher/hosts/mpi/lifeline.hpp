// The launcher's process on this node is what an agent lives by: mpirun that is killed cannot end
// what it has started, and a process that has left its exchange does not notice by itself.
//
// Thread rule: made before or after other threads, ended by the one that made it. A thread of its
// own waits, with all signals blocked.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <thread>

namespace ddprun::launcher::hosts::mpi {

class lifeline {
 public:
  // Sends SIGTERM to this process, once, when that one has ended; 0: nothing is done.
  explicit lifeline(int launcher);
  lifeline(const lifeline&) = delete;
  lifeline& operator=(const lifeline&) = delete;
  ~lifeline();

 private:
  void wait(int launcher) const;

  unique_fd process_;  // a pidfd; none where the kernel has none, before 5.3
  pipe_ends end_;      // closed by the owner
  std::thread waiting_;
};

}  // namespace ddprun::launcher::hosts::mpi
