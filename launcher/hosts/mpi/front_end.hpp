// The command that the user typed to start an MPI job, if it runs on this node above this process:
// mpirun, mpiexec and similar.
#pragma once

#include "launcher/hosts/mpi/ancestors.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::hosts::mpi {

bool is_front_end(const ancestor& process);

// The nearest one; null: there is none on this node.
const ancestor* front_end(const ancestors& above);

// Its arguments before ddprun's own name; later ones are not for it.
std::vector<std::string> options_of(const ancestor& process);

// True if the launcher prefixes each output line with its rank ("[1,0]<stdout>:", "[0] "), as far
// as this node can tell: OpenMPI 4 tells all nodes, others only show it on their command line.
bool tags_lines(const environment_map& environment, const ancestors& above);

}  // namespace ddprun::launcher::hosts::mpi
