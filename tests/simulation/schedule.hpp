// A schedule is a world's settings and its faults with their moments, drawn from one seed or
// written by hand; `play` runs it to the end and says what was violated.
//
// After the last fault everything heals, and a round of enough nodes must be running within a
// bound. After that the training ends, and every agent must leave.
//
// Thread rule: one thread; plays are independent of each other.
#pragma once

#include "tests/simulation/fault.hpp"
#include "tests/simulation/world.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::simulation {

struct schedule {
  world_options options;
  std::uint32_t nodes = 3;  // agents at the beginning, on hosts 1.. (the daemon has host 0)
  std::vector<std::uint32_t> worker_counts;
  bool daemon_on_first_host = false;
  // There is no separate daemon: the agent on the first host hosts one, and so does each agent that
  // follows it there.
  bool embedded = false;
  // If more than one, the agents are spread over that many run ids in turn, all on one daemon.
  std::uint32_t run_ids = 1;
  // The agents are given that many roles in turn.
  std::uint32_t roles = 1;
  // For how long nothing happens once everything runs again; nothing may change in that time.
  duration calm{};
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
  std::uint64_t overlaps_unknown = 0;
  std::uint64_t folders_tampered = 0;
};

schedule random_schedule(std::uint64_t seed);
outcome play(const schedule& plan, bool tracing = false);

// The longest that healing may take, including what a round may have to wait for: a last call, a
// recovering daemon, an orphaned round. `orphaned`: there may be a round of which no member is
// left, for which a daemon waits.
duration recovery_bound(const run_settings& settings, bool orphaned = true);

std::string to_text(const schedule& plan);

// Leaves out faults, one by one, as long as the rest still violates something.
schedule shrink(schedule failing);

}  // namespace ddprun::simulation
