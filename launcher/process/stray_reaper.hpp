// A stray is a process that became our child by adoption: a grandchild whose own parent has died
// (the agent is a subreaper, prctl PR_SET_CHILD_SUBREAPER).
//
// They are reaped here by process id: waitpid(-1) would take the spawner's children from it.
//
// Thread rule: the main thread; handlers on the executor.
#pragma once

#include "launcher/process/spawner.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/signal_set.hpp>

#include <functional>

namespace ddprun {

class stray_reaper {
 public:
  // Makes this process a subreaper and watches SIGCHLD. `spawn` must outlive it.
  stray_reaper(boost::asio::any_io_executor executor, spawner& spawn);

  // SIGKILL to every stray there is now: what has left its worker's process group and outlived it.
  // Reads the process table; for the end of a round. The number killed.
  int kill_strays();

  // Reaps what has ended and is not the spawner's.
  void reap();

 private:
  void watch();

  boost::asio::signal_set child_ended_;
  spawner& spawner_;
};

}  // namespace ddprun
