// What the tests of scenario families share: how they run many schedules and report a failure, and
// the settings from which they start.
//
// DDPRUN_SIMULATION_SCHEDULES scales a family down (or the general one up); without it all are
// played, but under a sanitizer in a quick test run a share of them, another one each time
// (tests/support/effort.hpp). DDPRUN_SIMULATION_FIRST is the seed that it begins with,
// DDPRUN_SIMULATION_SEED plays one schedule of it alone and prints the transcript,
// DDPRUN_SIMULATION_SHRINK leaves out its faults that do not matter.
#pragma once

#include "tests/simulation/schedule.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace ddprun::simulation {

inline constexpr std::uint64_t schedules_default = 10'000;
inline constexpr std::uint64_t schedules_sanitized = 100;  // under a sanitizer, in a quick test run

std::uint64_t number_from(const char* variable, std::uint64_t otherwise);

// DDPRUN_SIMULATION_SCHEDULES, or what the effort of this test run makes it.
std::uint64_t schedules_wanted();

// How many of `count` are played when schedules are scaled down: `least`, or their share.
std::uint64_t scaled(std::uint64_t count, std::uint64_t least = 10);

// Plays schedule(first) to schedule(first + count - 1), or a sample of them when schedules are
// scaled down; the first is DDPRUN_SIMULATION_FIRST (0). The result is empty, or says for each
// failing one how to play it again; it ends after DDPRUN_SIMULATION_FAILURES of them (1).
std::string play_family(const std::string& test, std::uint64_t count,
                        const std::function<schedule(std::uint64_t)>& make);

// As though a guardian had said that the agent at the other end is dead.
core::agent_said guardians_word(const daemon& heard_by, connection_id which);

// Plays until a schedule of a broken world violates something: the violation, or "nothing" after
// `count`.
std::string caught(const mutant& mutation, std::uint64_t count,
                   const std::function<schedule(std::uint64_t)>& make);

fault fault_of(fault_kind kind, moment at, std::uint32_t host, duration length = {}, int value = 0);

// `nodes` of two workers; five seconds of node_timeout, a heartbeat a second, short graces.
// Neither of the two hosts hears the other; 0 is the daemon's.
void part(schedule& plan, std::uint32_t host, std::uint32_t other, moment from, duration length);

schedule quiet_schedule(std::uint64_t seed, std::uint32_t nodes);

// Random faults on agents of which the first hosts the daemon. Its host is hit as often as all
// others together.
schedule embedded_schedule(std::uint64_t seed);

// A daemon of its own on the first agent's host: while it is dead, an agent that starts there
// brings one.
schedule beside_an_agent(std::uint64_t seed);

// Its daemons keep one; where it is kept well, the checkers insist on what that promises.
schedule with_journal(schedule made, journal_kind kind);

}  // namespace ddprun::simulation
