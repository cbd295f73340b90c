// The command that a person has typed to start an MPI job, where it runs on this node and above
// this process: mpirun, mpiexec, and their like.
#pragma once

#include "launcher/hosts/mpi/ancestors.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::hosts::mpi {

bool is_front_end(const ancestor& process);

// The nearest; null: there is none on this node.
const ancestor* front_end(const ancestors& above);

// Its arguments up to ddprun's own name: what follows is not for it.
std::vector<std::string> options_of(const ancestor& process);

// True where the launcher begins each line of output with whose it is ("[1,0]<stdout>:", "[0] "),
// as far as that is to be seen here: OpenMPI 4 tells all nodes, others only their command line.
bool tags_lines(const environment_map& environment, const ancestors& above);

}  // namespace ddprun::launcher::hosts::mpi
