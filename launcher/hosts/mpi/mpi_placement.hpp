// What an MPI launcher (OpenMPI, hydra of MPICH and Intel, PMIx, Flux, ...) says about this
// process, and what ddprun takes over from it. README.md in this folder has the details.
//
// Thread rule: before the first thread.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/hosts/placement.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <chrono>

namespace ddprun::launcher::hosts::mpi {

// How long a process waits for the others at the launcher's exchange; mpirun starts all of them or
// none.
inline constexpr std::chrono::seconds exchange_patience{60};

// A row of the engine table. Talks to the launcher and leaves it in order; waits for up to
// `exchange_patience`.
placement_outcome find_mpi_placement(const environment_map& environment);

// Called whatever was typed; does nothing unless an MPI launcher has started this process. Removes
// its variables from `environment`, keeps its descriptors from our children, removes a default CPU
// mask, and adjusts the output to the launcher's tags and its terminal. Returns the launcher's
// process on this node; 0: none.
int leave_launcher(environment_map& environment, launch_options& options);

}  // namespace ddprun::launcher::hosts::mpi
