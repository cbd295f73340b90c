// OpenMPI's mpirun binds each process to one core, or to a NUMA node if there are more than two
// processes, unless told otherwise. That is right for a rank, and wrong for an agent whose workers
// use the whole node. So that mask is removed; one that the user has asked for stays.
//
// Thread rule: before the first thread (a mask belongs to a thread). `is_default_binding` and
// `asks_for_binding` are pure.
#pragma once

#include "launcher/hosts/mpi/ancestors.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::hosts::mpi {

struct binding_facts {
  std::vector<int> own;       // processors of this process, in order
  std::vector<int> launcher;  // processors of mpirun's process on this node
  // Whether the user has said how to bind; empty: this node cannot tell.
  std::optional<bool> is_asked_for;
  bool is_one_core = false;
};

// True if mpirun has set the mask by default: it begins where mpirun's own mask begins, and is
// smaller. A taskset inside mpirun usually begins elsewhere.
bool is_default_binding(const binding_facts& facts);

// Looks at the variables that mpirun's options become in OpenMPI 4, or at its command line; empty:
// neither is here.
std::optional<bool> asks_for_binding(const environment_map& environment, const ancestors& above);

// Returns a line for the user if the mask was removed; empty: nothing was done.
std::string take_binding_back(const environment_map& environment, const ancestors& above);

}  // namespace ddprun::launcher::hosts::mpi
