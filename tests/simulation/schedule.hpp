// A schedule is a world's settings and its faults with their moments, drawn from one seed or
// written down by hand; `play` runs it to the end and says what was violated.
//
// After the last fault everything heals, and then a round of enough nodes must run within a bound;
// after that the training ends, and then every agent must leave.
//
// Thread rule: one thread; plays are independent of each other.
#pragma once

#include "tests/simulation/world.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::simulation {

enum class fault_kind {
  break_daemon_connection,
  break_tether,
  isolate_host,  // an island of its own for `length`
  split,         // hosts of `mask` on another island for `length`
  silence,       // from a host to another one, one way, for `length`
  kill_agent,    // and start another one on the host after `length`, unless it is 0
  lose_power,    // and the same after `length`
  stop_agent,    // SIGSTOP for `length`
  freeze_host,   // for `length`; `value` 1: its clock too
  kill_daemon,   // another one starts after `length`
  stop_daemon,   // SIGSTOP for `length`
  fail_worker,   // `value`: 0 exit, 1 signal
  unkillable,    // a worker, for `length`
  fail_service,
  fail_start,
  signal_agent,  // `value`: the signal
  join,          // a newcomer on a new host
  finish,        // training ends
  operator_stop,
  islands,       // four bits of `mask` for each host name its island, for `length`
  succeed_node,  // the workers of a host end with 0
  signal_all,    // SIGTERM to every agent
  break_all,     // every connection of the daemon
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

struct schedule {
  world_options options;
  std::uint32_t nodes = 3;  // agents at the beginning, on hosts 1.. (the daemon has host 0)
  std::vector<std::uint32_t> worker_counts;
  bool daemon_on_first_host = false;
  std::vector<fault> faults;
  moment heal_at{};
  // The daemon dies after so many messages to and from it; another one starts `daemon_returns`
  // later. 0: never.
  std::uint64_t daemon_messages = 0;
  duration daemon_returns{};
};

struct outcome {
  std::string violation;  // empty: none
  std::string transcript;
  duration until_running{};  // from the healing to a complete round; zero if it had ended
  duration lasted{};
  std::uint64_t messages = 0;
  std::uint64_t daemon_messages = 0;  // to and from the daemon
  std::uint64_t events = 0;
  std::uint64_t rounds = 0;
  std::uint64_t overlaps_excused = 0;
};

schedule random_schedule(std::uint64_t seed);
outcome play(const schedule& plan, bool tracing = false);

// The longest that healing may take (design section 11, invariant 6), with what a round may wait
// for besides: a last call, a recovering daemon, an orphaned round.
duration recovery_bound(const run_settings& settings);

std::string to_text(const schedule& plan);

// Leaves out faults, one by one, for as long as the rest still violates something.
schedule shrink(schedule failing);

}  // namespace ddprun::simulation
