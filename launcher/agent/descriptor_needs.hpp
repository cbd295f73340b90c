// Divides the descriptors that this process may open between the round's port, a daemon in this
// process, and a reserve for the agent itself and for starting its workers again, however many
// strangers have connected.
//
// Thread rule: any thread.
#pragma once

#include "rendezvous/core/agent/agent_machine.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace ddprun::launcher {

// How many connections a daemon in this process may hold: those of the agents and some others, but
// at most half of all.
std::size_t daemon_connections(std::uint64_t nodes, std::uint64_t own_workers);
// The same for a daemon that is opened later, for an unknown number of agents: half of all, but not
// what an open round with `of_round` connections needs.
std::size_t later_daemon_connections(std::uint64_t own_workers, std::size_t of_round);
// Tells whether that is enough for the agents.
bool has_descriptors_for_nodes(std::uint64_t nodes, std::uint64_t own_workers);

// How many connections the round's port may hold beside such a daemon.
std::size_t round_connections(std::uint64_t own_workers, std::size_t of_daemon);

// How many connections the round's workers and members need.
std::size_t needed_connections(const core::open_service& wanted);

// How many connections of the port may be idle from the start. The number is generous, because
// beyond it the oldest is closed, which may be a worker's.
std::size_t mute_connections(const core::open_service& wanted);

// The message if the round's port has no room, with `open` connections.
std::string turned_away_text(std::size_t open);

// Checks that the leader has enough descriptors for this round. Returns nothing, or a line with how
// many it needs, how many it may open, and what to do.
std::string descriptor_problem(const core::open_service& wanted, std::uint64_t own_workers,
                               std::size_t of_daemon);

}  // namespace ddprun::launcher
