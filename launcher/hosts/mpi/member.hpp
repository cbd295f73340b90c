// A member is this process as the MPI launcher that started it sees it: its rank among how many,
// and which it is on its node. Found out by the variables that each launcher leaves.
//
// Launchers nest (mpirun in a batch job, hydra under OpenMPI), and all leave their variables: the
// one whose own process is the nearest ancestor of this one has started it. Where ancestors are not
// seen (a container) the order of the table decides.
//
// Source of the variables: OpenMPI 4.1 and 5.0, MPICH 4.0 and Intel MPI 2021.19, as seen; MVAPICH2,
// PALS and JSM by public users of theirs (mpi4jax, hpctoolkit); Flux by flux-core's
// src/shell/task.c.
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
  std::string outer;  // of another launcher that is further out, a sentence; empty: there is none
};

// Nothing: none of these launchers has started this process, or a batch system has since. An
// error: its variables contradict each other.
using member_outcome = std::variant<std::monostate, member, cli::usage_error>;

member_outcome find_member(const environment_map& environment, const ancestors& above);

// Nothing is wrong where this process is the only one on its node; else what to type.
cli::checked check_alone_on_node(const member& self, const environment_map& environment);

// The nearest process of such a launcher; 0: there is none on this node, or it is not seen.
int launcher_process(const ancestors& above);

// Set for workers that are given an MPI launcher's variables (--mpi-env), so that another ddprun
// below them does not take itself for a member.
inline constexpr std::string_view own_variables_mark = "DDPRUN_MPI_ENV";

// True where any such launcher has left this process, or one above it, a rank.
bool has_rank(const environment_map& environment);

// True where a launcher has left a way to speak to it.
bool has_exchange(const environment_map& environment);

}  // namespace ddprun::launcher::hosts::mpi
