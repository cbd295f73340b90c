#include "launcher/hosts/mpi/mpi_placement.hpp"

#include "launcher/base/random_value.hpp"
#include "launcher/base/text.hpp"
#include "launcher/hosts/mpi/binding.hpp"
#include "launcher/hosts/mpi/front_end.hpp"
#include "launcher/hosts/mpi/hnp_uri.hpp"
#include "launcher/hosts/mpi/member.hpp"
#include "launcher/hosts/mpi/pmi1.hpp"
#include "launcher/hosts/mpi/pmix.hpp"
#include "launcher/hosts/mpi/worker_variables.hpp"
#include "launcher/network/free_port.hpp"
#include "launcher/network/own_addresses.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/core/messages/message_types.hpp"

#include <algorithm>
#include <fcntl.h>
#include <utility>

namespace ddprun::launcher::hosts::mpi {
namespace {

host_facts local_facts(const environment_map& environment, const ancestors& above) {
  host_facts host;
  host.addresses = own_addresses();
  host.towards = own_address_towards;
  host.free_port = [] { return unused_static_port(random_value<std::uint64_t>()); };
  host.new_run_id = [] { return "mpi-" + to_hex(random_value<std::uint64_t>()); };
  host.tags_lines = tags_lines(environment, above);
  return host;
}

cli::usage_error no_meeting(const member& self, const std::string& reason) {
  return {self.launcher + " has started this as rank " + std::to_string(self.rank) +
          (self.size > 0 ? " of " + std::to_string(self.size) : std::string()) +
          ", but the nodes cannot agree on where they meet: " + reason +
          "; say it yourself: --nnodes N --rdzv-endpoint HOST:PORT, on all nodes"};
}

// Only an exchange at a port tells rank and size itself.
cli::parsed<meeting> meet_by_pmi1(member& self, const environment_map& environment,
                                  const host_facts& host, deadline until) {
  auto board = pmi1_exchange::open(environment, until);
  if (!board) return board.error();
  if ((*board)->rank()) self.rank = *(*board)->rank();
  if ((*board)->size()) self.size = *(*board)->size();
  cli::parsed<meeting> agreed = meeting();
  if (self.size == 0) agreed = cli::usage_error{"it does not say how many processes there are"};
  if (self.size > 1) agreed = meet(**board, self.rank, self.size, host);
  auto left = (*board)->finish();
  if (agreed && left) return std::move(*left);
  return agreed;
}

cli::parsed<meeting> meet_the_others(member& self, const environment_map& environment,
                                     const ancestors& above) {
  const host_facts host = local_facts(environment, above);
  const deadline until = std::chrono::steady_clock::now() + exchange_patience;
  const std::string* const mpirun = find_variable(environment, "OMPI_MCA_orte_hnp_uri");
  const bool has_pmix = find_variable(environment, "PMIX_NAMESPACE") != nullptr;
  const bool has_pmi1 = find_variable(environment, "PMI_FD") != nullptr ||
                        find_variable(environment, "PMI_PORT") != nullptr;
  // Nested launchers both leave their variables; OpenMPI never has PMI-1, hydra never PMIx.
  const bool prefers_pmix =
      self.kind == launcher_kind::open_mpi || self.kind == launcher_kind::jsm || !has_pmi1;
  if (self.size == 0 && prefers_pmix)
    return cli::usage_error{"it does not say how many processes there are"};
  if (!prefers_pmix) return meet_by_pmi1(self, environment, host, until);
  if (has_pmix) {
    auto agreed =
        meet_by_pmix(pmix_library_places(environment, above), self.rank, self.size, host, until);
    if (!agreed) return agreed.error();
    if (*agreed) return std::move(**agreed);
  }
  if (mpirun != nullptr) return meet_at_mpirun(*mpirun, self.rank, host);
  if (has_pmix) return cli::usage_error{"it speaks PMIx, and there is no libpmix.so.2 here"};
  return cli::usage_error{"it provides neither PMI-1 (PMI_FD, PMI_PORT) nor PMIx"};
}

placement place_of(const member& self) {
  placement found;
  found.engine = self.launcher;
  found.nodes = std::max(1U, self.size);
  found.node_rank = self.rank;
  if (!self.outer.empty()) found.notes.push_back("started by " + self.launcher + "; " + self.outer);
  return found;
}

void keep_from_children(const environment_map& environment, std::string_view variable) {
  const int number = whole_number<int>(variable_or_empty(environment, variable)).value_or(-1);
  if (number > 2) ::fcntl(number, F_SETFD, FD_CLOEXEC);
}

}  // namespace

placement_outcome find_mpi_placement(const environment_map& environment) {
  const ancestors above = own_ancestors();
  member_outcome outcome = find_member(environment, above);
  if (auto* const wrong = std::get_if<cli::usage_error>(&outcome)) return std::move(*wrong);
  auto* const self = std::get_if<member>(&outcome);
  if (self == nullptr) return {};
  if (auto wrong = check_alone_on_node(*self, environment)) return std::move(*wrong);
  if (self->size == 1) return place_of(*self);
  auto agreed = meet_the_others(*self, environment, above);
  if (!agreed) return no_meeting(*self, agreed.error().text);
  placement found = place_of(*self);
  if (found.nodes == 1) return found;
  found.meeting_host = agreed->host;
  found.meeting_port = agreed->port;
  found.run_id = agreed->run_id;
  found.tags_lines = agreed->tags_lines;
  if (self->rank == 0) {
    found.local_address = agreed->host;
    found.notes.push_back("started by " + self->launcher + " on " + counted(found.nodes, "node") +
                          ", which meet here");
  }
  return found;
}

int leave_launcher(environment_map& environment, launch_options& options) {
  const ancestors above = own_ancestors();
  const member_outcome outcome = find_member(environment, above);
  const auto* const self = std::get_if<member>(&outcome);
  if (self == nullptr && !has_exchange(environment)) return 0;
  if (self != nullptr && self->kind == launcher_kind::open_mpi) {
    std::string note = take_binding_back(environment, above);
    if (!note.empty()) options.notes.push_back(std::move(note));
    // It gives its processes a terminal, whatever reads the other end.
    if (options.output.color == color_mode::automatic) options.output.color = color_mode::never;
    options.output.pty = pty_mode::off;
  }
  options.output.is_tagged = options.output.is_tagged || tags_lines(environment, above);
  for (const std::string_view variable : {"PMI_FD", "HYDI_CONTROL_FD", "HYDRA_BSTRAP_UPSTREAM_FD"})
    keep_from_children(environment, variable);
  remove_launchers_variables(environment);
  return launcher_process(above);
}

}  // namespace ddprun::launcher::hosts::mpi
