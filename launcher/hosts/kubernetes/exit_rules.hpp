// What Kubernetes should do when a pod's ddprun exits, by the exit codes in
// rendezvous/base/exit_codes.hpp. If ddprun exits with a worker's code, it has used up
// --max-restarts, so another pod would only fail again, with a budget that nobody asked for.
#pragma once

#include "launcher/hosts/kubernetes/manifest_request.hpp"
#include "rendezvous/base/exit_codes.hpp"

#include <array>

namespace ddprun::launcher::kubernetes {

inline constexpr int killed_exit_code = exit_code_of_signal(SIGKILL);
// A successor may do better than this pod, which is charged for it; sorted, as Kubernetes requires.
// Killed: with its pod or node, or out of memory. Told to go while the others go on: with 0 its
// index would count as done. A pod that the other nodes did not join is charged as well: they may
// have succeeded before it came, and it would be tried for ever.
inline constexpr std::array worth_a_successor = {
    displaced_exit_code, unmet_exit_code, refused_exit_code, killed_exit_code, drained_exit_code};
// A new container in the same pod may do better.
inline constexpr std::array worth_a_container = {unmet_exit_code, killed_exit_code};

// How often a pod may be replaced, for each index.
inline constexpr int successors_max = 10;

}  // namespace ddprun::launcher::kubernetes
