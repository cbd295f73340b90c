// What Kubernetes is to do when a pod's ddprun exits, by the table of exit codes in
// rendezvous/base/exit_codes.hpp. ddprun has used up --max-restarts when it exits with a worker's
// code, so a further pod would only fail again, with a budget that nobody meant to give.
#pragma once

#include "launcher/hosts/kubernetes/manifest_request.hpp"
#include "rendezvous/base/exit_codes.hpp"

#include <array>

namespace ddprun::launcher::kubernetes {

// A successor may do better than this pod, which is charged for it; in order, as Kubernetes wants
// them. 137: killed with its pod or node, or as memory ran out. Even of a pod to which the others
// did not come: they may have ended well before it was there, and it would be tried for ever.
inline constexpr std::array worth_a_successor = {displaced_exit_code, unmet_exit_code,
                                                 refused_exit_code, 137, drained_code};
// A fresh container in the same pod may do better.
inline constexpr std::array worth_a_container = {unmet_exit_code, 137};

// How often a pod may be charged so, each index for itself.
inline constexpr int successors_max = 10;

}  // namespace ddprun::launcher::kubernetes
