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

placement_outcome find_placement(const environment_map& environment);

}  // namespace ddprun::launcher::hosts
