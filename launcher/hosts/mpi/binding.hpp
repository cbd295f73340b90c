// OpenMPI's mpirun binds each process to one core, or to one NUMA node of more than two processes,
// unless it is told otherwise: right for a rank, wrong for an agent whose workers are to use the
// whole node. That mask is taken back; one that the person has asked for stays.
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
  std::vector<int> launcher;  // those of mpirun's process on this node
  // The person has said how to bind; empty: that cannot be seen from this node.
  std::optional<bool> is_asked_for;
  bool is_one_core = false;
};

// True where mpirun has made the mask by itself: it begins where mpirun's own does, and is less. A
// taskset within mpirun begins elsewhere, in general.
bool is_default_binding(const binding_facts& facts);

// By the variables that options of mpirun become with OpenMPI 4, or by its own command line; empty:
// neither is here.
std::optional<bool> asks_for_binding(const environment_map& environment, const ancestors& above);

// A line for the person when the mask was taken back; empty: nothing was done.
std::string take_binding_back(const environment_map& environment, const ancestors& above);

}  // namespace ddprun::launcher::hosts::mpi
