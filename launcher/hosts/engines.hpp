// Asks the engines that ddprun knows, one after the other, whether one of them has started this
// process. Launchers nest (mpirun in a Slurm allocation), and both leave their variables: the
// innermost one is asked first and wins.
//
// To add an engine: a folder beside this file with a function of this shape, and a row in
// engines.cpp.
//
// Thread rule: before the first thread. An engine may speak to its own server here, for seconds at
// most.
#pragma once

#include "launcher/hosts/placement.hpp"
#include "rendezvous/base/environment_map.hpp"

namespace ddprun::launcher::hosts {

// None for a ddprun that a worker has started: it runs on this host, as torchrun does there.
placement_outcome find_placement(const environment_map& environment);

// Lets a ddprun that a worker starts know that it is in the worker's task or pod, whose variables
// the worker inherits. To be called on the environment that workers get.
void mark_task(environment_map& environment);

}  // namespace ddprun::launcher::hosts
