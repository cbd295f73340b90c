// The exit codes of our programs' own failures; otherwise `ddprun` exits with the code of the
// worker that failed first, or 128 plus a signal (signals.hpp). launcher/README.md has the whole
// table, and a test compares both. The numbers from 64 on are the nearest ones of sysexits.h.
#pragma once

#include "rendezvous/base/signals.hpp"

#include <csignal>

namespace ddprun {

// The job failed, and its root cause has no exit code of its own: a node was lost, a rank hung, a
// worker could not be started. Also any other failure of our programs that has no row here.
inline constexpr int failed_exit_code = 1;
inline constexpr int usage_exit_code = 2;  // a mistake on the command line
// The run refuses this node: its settings differ, the run is full, or it has failed too often
// (EX_CONFIG).
inline constexpr int refused_exit_code = 78;
// Another job has taken the endpoint of this one (EX_NOHOST).
inline constexpr int displaced_exit_code = 68;
// The nodes did not meet within join_timeout: the endpoint was unreachable, or other nodes were
// missing (EX_UNAVAILABLE).
inline constexpr int unmet_exit_code = 69;
// Of an agent that leaves in order on SIGTERM while the others go on, where whatever has started it
// must tell that from the success of the run: `ddprun -H` and the pods of `ddprun manifest`. An
// agent that a person starts exits with 0 then (--drain-exit-code).
inline constexpr int drained_exit_code = exit_code_of_signal(SIGTERM);

}  // namespace ddprun
