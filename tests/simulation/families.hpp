// What the tests of scenario families share: how they run many schedules and report a failure, and
// the settings that they start from.
//
// DDPRUN_SIMULATION_SCHEDULES scales a family down (or the general one up). Without it all
// schedules are run; under a sanitizer, in a quick test run, only a share of them, which differs
// each time (tests/support/effort.hpp). DDPRUN_SIMULATION_FIRST is the seed that a family begins
// with. DDPRUN_SIMULATION_SEED runs one schedule of it alone and prints the transcript, and
// DDPRUN_SIMULATION_SHRINK leaves out the faults that do not matter.
#pragma once

#include "tests/simulation/schedule.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

namespace ddprun::simulation {

inline constexpr std::uint64_t schedules_default = 10'000;
inline constexpr std::uint64_t schedules_sanitized = 100;  // under a sanitizer, in a quick test run

std::uint64_t number_from(const char* variable, std::uint64_t otherwise);

// DDPRUN_SIMULATION_SCHEDULES or, without it, what follows from the effort of this test run.
std::uint64_t schedules_wanted();

// How many of `count` schedules are run when they are scaled down: their share, but at least
// `least`.
std::uint64_t scaled(std::uint64_t count, std::uint64_t least = 10);

// Runs schedule(first) to schedule(first + count - 1), or a sample of them when schedules are
// scaled down; `first` is DDPRUN_SIMULATION_FIRST (0). The result is empty, or says for each
// failing schedule how to run it again. It stops after DDPRUN_SIMULATION_FAILURES failures (1).
std::string play_family(const std::string& test, std::uint64_t count,
                        const std::function<schedule(std::uint64_t)>& make);

// The message with which a guardian would report that the agent at the other end is dead.
core::agent_said guardians_word(const daemon& heard_by, connection_id which);

// A mutant that changes every record before it is persisted.
mutant with_changed_records(std::function<void(core::run_record&)> change);

// "WHAT IS, not DUE "; empty if they are equal.
template <typename Number>
std::string unlike(const char* what, Number is, std::type_identity_t<Number> due) {
  if (is == due) return {};
  return std::string(what) + " " + std::to_string(is) + ", not " + std::to_string(due) + " ";
}

// Runs schedules of a broken world until one violates something. Returns the violation, or
// "nothing" after `count` schedules.
std::string caught(const mutant& mutation, std::uint64_t count,
                   const std::function<schedule(std::uint64_t)>& make);

fault fault_of(fault_kind kind, moment at, std::uint32_t host, duration length = {}, int value = 0);

// `nodes` of two workers; five seconds of node_timeout, a heartbeat a second, short graces. Neither
// of the two hosts hears the other; host 0 is the daemon's.
void part(schedule& plan, std::uint32_t host, std::uint32_t other, moment from, duration length);

schedule quiet_schedule(std::uint64_t seed, std::uint32_t nodes);

// Random faults on agents of which the first hosts the daemon. Its host is hit as often as all
// others together.
schedule embedded_schedule(std::uint64_t seed);

// A separate daemon on the first agent's host; while it is dead, an agent that starts there opens
// one.
schedule beside_an_agent(std::uint64_t seed);

// Its daemons keep a journal; if nothing tampers with it, the checkers insist on what a journal
// promises.
schedule with_journal(schedule made, journal_kind kind);

}  // namespace ddprun::simulation
