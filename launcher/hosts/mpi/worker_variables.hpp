// The variables of MPI launchers in the environment of workers.
//
// A worker is no process of the MPI job: the agent is, and there is one on a node. So what the
// agent was given by its launcher does not reach a worker: libraries take the agent's rank for
// theirs (accelerate reads PMI_SIZE before WORLD_SIZE), and MPI_Init would speak to the launcher in
// the agent's name. What the person has set for MPI itself (OMPI_MCA_btl, I_MPI_FABRICS) stays.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <cstdint>
#include <string_view>

namespace ddprun::launcher::hosts::mpi {

// True for what a launcher tells its own process.
bool is_launchers_variable(std::string_view name);

void remove_launchers_variables(environment_map& variables);

struct worker_rank {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 1;
};

// As OpenMPI's mpirun and hydra would have set them (--mpi-env). Nothing by which a server could be
// found: MPI_Init takes the worker for a program that was started alone.
void set_mpi_variables(environment_map& variables, const worker_rank& worker);

}  // namespace ddprun::launcher::hosts::mpi
