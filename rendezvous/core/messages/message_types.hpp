// The vocabulary of a run: identities and phases, shared by the daemon, the agents and the protocol
// between them. Names follow torch elastic where it has one.
#pragma once

#include "rendezvous/base/time.hpp"

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

// A session is one life of one agent process: 128 random bits. All zero means none.
struct session_id {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const session_id&) const = default;
  explicit operator bool() const { return high != 0 || low != 0; }
};

// An instance is one life of a run id, from the first join to its close. Drawn at random by the
// daemon's shell; 0 means none.
using instance_id = std::uint64_t;

// A round is one life of the worker group within an instance. The first is 1; 0 means none.
using round_number = std::uint64_t;

// Identifies one connection of the daemon for as long as that daemon lives; never used again.
using connection_id = std::uint64_t;

// How far a member is in its round, as it says itself (DESIGN.md).
enum class member_phase {
  joined,     // in no round
  preparing,  // the leader opens the round's service; done when the status carries its ports
  assigned,   // knows its ranks, dials the leader
  starting,   // spawns its workers
  running,    // every worker was executed
  succeeded,  // every worker ended with 0; final for this round
  failed,     // a worker failed; the causes are in the status
  stopping,   // takes its workers down
  stopped,    // no worker of this round lives here (or those that do are named as unkillable)
  lost,       // set by the daemon only: silent, or fenced
};

enum class run_phase { gathering, settling, preparing, running, stopping, closed };

// What the daemon wants of one agent.
enum class desired_phase {
  wait,     // be here, run nothing
  prepare,  // to the leader alone: open the service of this round
  run,      // be a member of this round
  stop,     // take the workers of this round and all earlier ones down, keep the session
  fence,    // kill every worker without grace, then join again
  close,    // the instance is over, or this node's part in it: leave with the given code
};

enum class cause_class { exit, signal, start, hung, health, node_lost, drain, operator_stop };

// The process that serves TCPStore at MASTER_ADDR:MASTER_PORT.
enum class store_mode { agent, worker };

// What a join does to a run that is under way.
enum class join_policy { wait, restart };

// How a node's rank, as a person has numbered the nodes, relates to its group rank.
enum class rank_policy { hint, exact };

std::string_view to_string(member_phase phase);
std::string_view to_string(run_phase phase);
std::string_view to_string(desired_phase phase);
std::string_view to_string(cause_class value);
std::string_view to_string(store_mode mode);
std::string_view to_string(join_policy policy);
std::string_view to_string(rank_policy policy);

// 32 lower-case hexadecimal digits.
std::string to_string(session_id session);

// Lower-case digits without leading zeros, as instances are written on the wire and in the journal.
std::string to_hex(std::uint64_t value);

}  // namespace ddprun
