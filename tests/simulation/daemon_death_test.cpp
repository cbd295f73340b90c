// The daemon dies after each single message of a run of three nodes (with a failed worker, a
// restart and the end), and comes back without a record. Any subset of the agents returns, in any
// order, together with newcomers and stale agents.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <cstdint>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t variants = 12;

schedule base(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 3);
  made.options.settings.nodes_min = 2;
  made.options.settings.spares_max = 1;
  fault failure;
  failure.kind = fault_kind::fail_worker;
  failure.at = 1500ms;
  failure.host = 2;
  made.faults.push_back(failure);
  fault end;
  end.kind = fault_kind::finish;
  end.at = 4s;
  made.faults.push_back(end);
  made.heal_at = 5s;
  return made;
}

schedule with_returns(std::uint64_t seed, std::uint64_t message) {
  schedule made = base(seed % variants);
  made.options.seed = seed;
  random_source random = random_source(seed).fork(5);
  made.daemon_messages = message;
  const timers& timing = made.options.settings.timing;
  const duration returns[] = {1ms, 700ms, timing.isolation_limit + 100ms, 2 * timing.node_timeout};
  made.daemon_returns = returns[random.below(4)];
  // The moment at which the daemon dies is known only as a number of messages, so the cuts cover
  // the whole run.
  for (std::uint32_t host = 1; host <= 3; ++host) {
    const auto fate = random.below(4);
    if (fate == 1) part(made, host, 0, random.between(0ms, 4s), random.between(100ms, 4s));
    if (fate == 2) part(made, host, 0, random.between(0ms, 4s), random.between(3s, 20s));
    if (fate == 3) {
      fault stale;
      stale.kind = fault_kind::isolate_host;
      stale.host = host;
      stale.at = random.between(0ms, 4s);
      stale.length = random.between(1s, 20s);
      made.faults.push_back(stale);
    }
    made.heal_at = std::max(made.heal_at, made.faults.back().at + made.faults.back().length);
  }
  if (random.chance(50)) {
    fault newcomer;
    newcomer.kind = fault_kind::join;
    newcomer.at = random.between(500ms, 8s);
    made.faults.push_back(newcomer);
  }
  made.heal_at = std::max(made.heal_at, moment(made.daemon_returns + 6s));
  return made;
}

// The daemon is back, and stands still while its recovery window passes. Newcomers connect first,
// or the agents that run.
schedule stopped_when_back(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 2);
  random_source random = random_source(seed).fork(6);
  const timers& timing = made.options.settings.timing;
  made.options.settings.nodes_min = static_cast<std::uint32_t>(1 + random.below(2));
  made.options.settings.spares_max = 2;
  made.faults.push_back(fault_of(fault_kind::kill_daemon, 2s, 0, 500ms));
  const moment stops = 2500ms + random.between(1ms, 300ms);
  const duration away = timing.recovery_window + random.between(0ms, 5s);
  made.faults.push_back(fault_of(fault_kind::stop_daemon, stops, 0, away));
  for (std::uint64_t count = 1 + random.below(2); count > 0; --count)
    made.faults.push_back(fault_of(fault_kind::join, stops + random.between(0ms, 1s), 0));
  made.heal_at = stops + away + 1s;
  return made;
}

}  // namespace

TEST_CASE("the daemon dies after each single message") {
  const std::uint64_t messages = play(base(1)).daemon_messages;
  REQUIRE(messages > 40);
  const auto failed = play_family(
      "the daemon dies after each single message", messages * variants, [&](std::uint64_t seed) {
        schedule made = base(seed);
        made.daemon_messages = 1 + seed / variants;
        const duration returns[] = {1ms, 300ms, 900ms, 3100ms, 5500ms, 12s};
        made.daemon_returns = returns[seed % 6];
        made.heal_at = 17s;
        return made;
      });
  REQUIRE(failed == "");
}

TEST_CASE("any subset returns to an empty daemon in any order") {
  const std::uint64_t messages = play(base(1)).daemon_messages;
  const auto failed =
      play_family("any subset returns to an empty daemon in any order", messages * variants,
                  [&](std::uint64_t seed) { return with_returns(seed, 1 + seed / variants); });
  REQUIRE(failed == "");
}

TEST_CASE("a daemon that stands still when it is back waits for its agents all the same") {
  REQUIRE(
      play_family("a daemon that stands still when it is back waits for its agents all the same",
                  500, stopped_when_back) == "");
}

}  // namespace ddprun::simulation
