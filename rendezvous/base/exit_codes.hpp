// What our programs exit with where it is their own word; else it is that of the first worker that
// failed, or 128 plus a signal (signals.hpp). README.md has the same list.
//
// Thread rule: constants.
#pragma once

namespace ddprun {

inline constexpr int usage_exit_code = 2;     // a mistake on the command line
inline constexpr int refused_exit_code = 64;  // the run refuses this node
// Another job has opened the endpoint: the place of this one is taken.
inline constexpr int displaced_exit_code = 68;
// The nodes did not meet within join_timeout: the endpoint was not reached, or others were missing.
inline constexpr int unmet_exit_code = 69;

}  // namespace ddprun
