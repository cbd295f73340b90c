// The exit codes of our programs' own failures; otherwise a program exits with the code of the
// worker that failed first, or 128 plus a signal (signals.hpp). launcher/README.md has the whole
// table. The numbers are the nearest ones of sysexits.h; a test compares them with the table.
#pragma once

namespace ddprun {

inline constexpr int usage_exit_code = 2;  // a mistake on the command line
// The run refuses this node: its settings differ, the run is full, or it has failed too often
// (EX_CONFIG).
inline constexpr int refused_exit_code = 78;
// Another job has taken the endpoint of this one (EX_NOHOST).
inline constexpr int displaced_exit_code = 68;
// The nodes did not meet within join_timeout: the endpoint was unreachable, or other nodes were
// missing (EX_UNAVAILABLE).
inline constexpr int unmet_exit_code = 69;

}  // namespace ddprun
