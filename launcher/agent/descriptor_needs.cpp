#include "launcher/agent/descriptor_needs.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/net/descriptor_limit.hpp"
#include "rendezvous/server/port_shares.hpp"

#include <algorithm>

namespace ddprun::launcher {
namespace {

constexpr std::uint64_t own_descriptors =
    64;  // session, guardian, libraries, one spawn in progress
// Two pipes and a pidfd; for a worker that may survive, both pipes once more and a socket.
constexpr std::uint64_t descriptors_per_worker = 6;
// PyTorch connects once for the default group; scripts that clone the store connect again.
constexpr std::uint64_t connections_per_worker = 2;
// Each split of a process group clones the store, too, and may never use it: a device mesh has tens
// of them.
constexpr std::uint64_t mute_per_worker = 64;
// Connections to a daemon that are not agents': torchrun's clients, people, probes.
constexpr std::uint64_t daemon_guests = 64;

std::uint64_t kept_back(std::uint64_t own_workers) {
  return own_descriptors + descriptors_per_worker * own_workers;
}

std::uint64_t for_connections(std::uint64_t own_workers) {
  const std::uint64_t allowed = net::descriptor_limit();
  return allowed - std::min(allowed, kept_back(own_workers));
}

}  // namespace

std::size_t daemon_connections(std::uint64_t nodes, std::uint64_t own_workers) {
  const std::uint64_t half = for_connections(own_workers) / 2;
  // Three eighths are reserved for agents, so each agent of the run finds room.
  const std::uint64_t wanted = std::max(nodes + daemon_guests, 8 * ((nodes + 2) / 3));
  return std::max<std::uint64_t>(1, std::min(wanted, half));
}

std::size_t later_daemon_connections(std::uint64_t own_workers, std::size_t of_round) {
  const std::uint64_t all = for_connections(own_workers);
  const std::uint64_t left = all - std::min<std::uint64_t>(all, of_round);
  return std::max<std::uint64_t>(1, std::min(all / 2, left));
}

bool has_descriptors_for_nodes(std::uint64_t nodes, std::uint64_t own_workers) {
  const server::port_shares shares(daemon_connections(nodes, own_workers));
  return nodes <= shares.most(server::peer_kind::agent);
}

std::size_t round_connections(std::uint64_t own_workers, std::size_t of_daemon) {
  const std::uint64_t left = for_connections(own_workers);
  return left - std::min<std::uint64_t>(left, of_daemon);
}

std::size_t needed_connections(const core::open_service& wanted) {
  return connections_per_worker * wanted.world_size + wanted.group_world_size;
}

std::size_t mute_connections(const core::open_service& wanted) {
  return mute_per_worker * wanted.world_size + wanted.group_world_size;
}

std::string turned_away_text(std::size_t open) {
  return "the round's port turns connections away: " + std::to_string(open) +
         " are open, which is all that the limit of open files leaves after the workers' share; "
         "raise it (ulimit -Hn), or find out who connects to the port";
}

std::string descriptor_problem(const core::open_service& wanted, std::uint64_t own_workers,
                               std::size_t of_daemon) {
  const std::size_t needed = needed_connections(wanted);
  if (needed <= round_connections(own_workers, of_daemon)) return {};
  return "too few file descriptors: the job store of " + counted(wanted.world_size, "worker") +
         " needs " + std::to_string(kept_back(own_workers) + of_daemon + needed) +
         " descriptors and this process may open " + std::to_string(net::descriptor_limit()) +
         "; raise the hard limit (ulimit -Hn) and start again";
}

}  // namespace ddprun::launcher
