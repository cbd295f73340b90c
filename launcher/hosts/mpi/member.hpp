// A member is this process as seen by the MPI launcher that started it: its rank, the number of
// ranks, and its position on the node, from the variables that each launcher sets.
//
// Launchers may be nested (mpirun in a batch job, hydra below OpenMPI), and all leave their
// variables: the one whose own process is the nearest ancestor has started this process. If
// ancestors are not visible (in a container), the order of the table decides.
//
// Source of the variables: OpenMPI 4.1 and 5.0, MPICH 4.0 and Intel MPI 2021.19, as observed;
// MVAPICH2, PALS and JSM from public code that uses them (mpi4jax, hpctoolkit); Flux from
// flux-core's src/shell/task.c.
#pragma once

#include "launcher/hosts/mpi/ancestors.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::launcher::hosts::mpi {

enum class launcher_kind { open_mpi, hydra, mvapich, pals, jsm, flux };

struct member {
  launcher_kind kind = launcher_kind::open_mpi;
  std::string launcher;  // for messages: "OpenMPI's mpirun"
  std::uint32_t rank = 0;
  std::uint32_t size = 0;                   // 0: only the exchange knows
  std::optional<std::uint32_t> local_rank;  // empty: not told
  std::optional<std::uint32_t> local_size;
  std::string outer;  // a sentence about another launcher further out; empty: none
};

// Monostate: none of these launchers has started this process, or a batch system has done so since.
// Error: its variables contradict each other.
using member_outcome = std::variant<std::monostate, member, cli::usage_error>;

member_outcome find_member(const environment_map& environment, const ancestors& above);

// Empty if this process is the only one on its node; otherwise says what to type.
cli::checked check_alone_on_node(const member& self, const environment_map& environment);

// The nearest process of such a launcher; 0: none on this node, or not visible.
int launcher_process(const ancestors& above);

// Set for workers that get an MPI launcher's variables (--mpi-env), so that a ddprun below them
// does not take itself for a member.
inline constexpr std::string_view own_variables_mark = "DDPRUN_MPI_ENV";

// True if any such launcher has given this process, or one above it, a rank.
bool has_rank(const environment_map& environment);

// True if a launcher has left a way to talk to it.
bool has_exchange(const environment_map& environment);

}  // namespace ddprun::launcher::hosts::mpi
