// The variables of MPI launchers in the workers' environment.
//
// The agent is a process of the MPI job, one on each node, and workers are not. So workers do not
// get what the launcher has given to the agent: libraries would take the agent's rank for their own
// (accelerate reads PMI_SIZE before WORLD_SIZE), and MPI_Init would talk to the launcher in the
// agent's name. What the user has set for MPI itself (OMPI_MCA_btl, I_MPI_FABRICS) stays.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <cstdint>
#include <string_view>

namespace ddprun::launcher::hosts::mpi {

// True for variables by which a launcher informs its own process.
bool is_launchers_variable(std::string_view name);

void remove_launchers_variables(environment_map& variables);

struct worker_rank {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 1;
};

// Sets what OpenMPI's mpirun and hydra would have set (--mpi-env), but nothing that leads to a
// server: MPI_Init then takes the worker for a program started alone.
void set_mpi_variables(environment_map& variables, const worker_rank& worker);

}  // namespace ddprun::launcher::hosts::mpi
