// A fault is one thing that goes wrong in a schedule, and when it does. A new kind of fault needs a
// line here, a row of the table in fault.cpp, and its effect in player_faults.cpp.
#pragma once

#include "rendezvous/core/messages/settings.hpp"
#include "tests/simulation/random_source.hpp"
#include "tests/simulation/timeline.hpp"

#include <cstdint>
#include <string>

namespace ddprun::simulation {

enum class fault_kind {
  break_daemon_connection,
  break_tether,
  isolate_host,  // an island of its own for `length`
  split,         // hosts of `mask` on another island for `length`
  silence,       // from a host to another one, one way, for `length`
  kill_agent,    // and start another one on the host after `length`, unless it is 0
  lose_power,    // and the same after `length`
  stop_agent,    // SIGSTOP for `length`, with the daemon that it hosts
  block_agent,   // its loop stands still for `length`, a daemon that it hosts does not
  freeze_host,   // for `length`; `value` 1: its clock too
  kill_daemon,   // and the agent that hosts it; another one starts after `length`
  stop_daemon,   // SIGSTOP for `length`
  fail_worker,   // `value`: 0 exit, 1 signal
  unkillable,    // a worker, for `length`
  fail_service,
  fail_start,
  stall_start,   // the next exec there takes `length`; `value` 1: and no signal ends it
  signal_agent,  // `value`: the signal
  join,          // a newcomer on a new host
  finish,        // training ends
  operator_stop,
  islands,       // four bits of `mask` for each host name its island, for `length`
  succeed_node,  // the workers of a host end with 0
  signal_all,    // SIGTERM to every agent
  break_all,     // every connection of the daemon
  slow_kills,    // from now on some workers that are killed end only after seconds
  signal_group,  // `value`: the signal, to the agent and its workers
  stuck_worker,  // no signal ever ends it
  deaf,          // an agent that heartbeats and obeys nobody
  move_daemon,   // a new one on `host`, where the name points now; the old one is cut off for
                 // `length`, or, `value` 1, gets SIGSTOP for so long, or, 2, goes on
  kill_all,      // daemon and agents, by SIGKILL or, `value` 1, power; the same commands are given
                 // again after `length`, but where a bit of `mask` and the next one are set
  kill_knowing,  // the same of the daemon and those agents that know the newest round
  come_again,    // the command is given again on a host where no agent is
};

struct fault {
  moment at{};
  fault_kind kind = fault_kind::join;
  std::uint32_t host = 0;
  std::uint32_t other = 0;
  std::uint64_t mask = 0;
  duration length{};
  int value = 0;
};

// Draws a fault by the weights of the table, at any moment until `last`.
fault random_fault(random_source& random, std::uint32_t hosts, const timers& timing, moment last);

std::string to_text(const fault& each);

}  // namespace ddprun::simulation
