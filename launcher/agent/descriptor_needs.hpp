// Divides what this process may open between the round's port, a daemon in this process, and what
// is kept back: for the agent itself, and for its workers, which must be started again however many
// strangers have connected.
//
// Thread rule: may be called from any thread.
#pragma once

#include "rendezvous/core/agent/agent.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace ddprun::launcher {

// How many connections a daemon in this process may hold: those of so many agents and some others,
// at most half of what there is.
std::size_t daemon_connections(std::uint64_t nodes, std::uint64_t own_workers);
// The same of one that is opened later, for agents nobody has counted: half of what there is, and
// what a round that is open, with `of_round` connections, does not need.
std::size_t later_daemon_connections(std::uint64_t own_workers, std::size_t of_round);
// Whether that is enough for the agents.
bool has_descriptors_for_nodes(std::uint64_t nodes, std::uint64_t own_workers);

// How many the round's port may hold beside such a daemon.
std::size_t round_connections(std::uint64_t own_workers, std::size_t of_daemon);

// How many of them the round's workers and members need.
std::size_t needed_connections(const core::open_service& wanted);

// Of all that the port may hold, at most so many that have asked for nothing yet: generous, for the
// oldest of them goes where more come, and it may be a worker's.
std::size_t mute_connections(const core::open_service& wanted);

// Said where the round's port has no room, with so many open.
std::string turned_away_text(std::size_t open);

// Whether the leader of this round has enough for it. Empty, or one line that says how many it
// needs, how many it may have, and what to do.
std::string descriptor_problem(const core::open_service& wanted, std::uint64_t own_workers,
                               std::size_t of_daemon);

}  // namespace ddprun::launcher
