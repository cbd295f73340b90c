// What an MPI launcher (OpenMPI, hydra of MPICH and Intel, PMIx, Flux, ...) says about this
// process, and what ddprun takes out of its hands. README.md in this folder tells the whole story.
//
// Thread rule: before the first thread.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/hosts/placement.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <chrono>

namespace ddprun::launcher::hosts::mpi {

// How long a process waits for the others to come to the launcher's exchange: mpirun has started
// all of them or none.
inline constexpr std::chrono::seconds exchange_patience{60};

// One of the engines. Speaks to the launcher, and takes leave of it; waits for `exchange_patience`
// at most.
placement_outcome find_mpi_placement(const environment_map& environment);

// Whatever was typed, and nothing where no MPI launcher has started this process: takes its
// variables out of `environment`, keeps its descriptors from what this process starts, takes back a
// mask of processors that it has made by itself, and settles how lines look behind its tags and on
// a terminal that is only its own. The result is the launcher's process on this node; 0: none.
int leave_launcher(environment_map& environment, launch_options& options);

}  // namespace ddprun::launcher::hosts::mpi
