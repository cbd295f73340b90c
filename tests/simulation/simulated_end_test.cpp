// Ends of a run at which several things happen at once: a signal to a node's whole cgroup, workers
// that nothing ends, a node that obeys no order, success while daemons come and go.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

// All processes of one node, or of all nodes, get the signal within some milliseconds, the workers
// or the agent first.
schedule to_cgroups(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 3);
  random_source random = random_source(seed).fork(41);
  made.options.settings.nodes_min = static_cast<std::uint32_t>(1 + random.below(3));
  made.options.settings.restarts_max = static_cast<std::uint32_t>(random.below(2));
  made.options.habits.collateral_percent = 0;
  const int number = random.chance(50) ? 15 : 2;
  const std::uint64_t hit = random.chance(30) ? 3 : 1;
  const moment when = 1500ms + random.between(0ms, 1s);
  for (std::uint32_t host = 1; host <= hit; ++host)
    made.faults.push_back(fault_of(fault_kind::signal_group, when, host, 0ms, number));
  made.heal_at = 4s;
  return made;
}

// One node's worker never ends, and then the round has to end for another reason.
schedule stuck(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 3);
  random_source random = random_source(seed).fork(42);
  made.options.settings.nodes_min = static_cast<std::uint32_t>(1 + random.below(2));
  made.faults.push_back(fault_of(fault_kind::stuck_worker, 1500ms, 1));
  const fault_kind ends[] = {fault_kind::fail_worker, fault_kind::operator_stop,
                             fault_kind::isolate_host, fault_kind::signal_all};
  made.faults.push_back(fault_of(ends[seed % 4], 2s, 1 + seed / 4 % 2, 10s, 15));
  if (random.chance(50)) made.faults.push_back(fault_of(fault_kind::kill_daemon, 5s, 0, 2s));
  made.heal_at = 15s;
  return made;
}

schedule deaf(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 3);
  random_source random = random_source(seed).fork(43);
  made.options.settings.nodes_min = static_cast<std::uint32_t>(1 + random.below(2));
  made.faults.push_back(fault_of(fault_kind::deaf, random.between(100ms, 2s),
                                 static_cast<std::uint32_t>(1 + seed % 3)));
  made.faults.push_back(
      fault_of(fault_kind::fail_worker, 2500ms, static_cast<std::uint32_t>(1 + random.below(3))));
  made.heal_at = 4s;
  return made;
}

// All succeed; at about that time the daemon dies, and connections break.
schedule succeeding(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 3);
  random_source random = random_source(seed).fork(44);
  made.options.settings.nodes_min = static_cast<std::uint32_t>(1 + random.below(3));
  made.faults.push_back(fault_of(fault_kind::finish, 1500ms, 0));
  made.faults.push_back(fault_of(fault_kind::kill_daemon, 1700ms + random.between(0ms, 1500ms), 0,
                                 random.between(1ms, 9s)));
  for (std::uint64_t count = random.below(3); count > 0; --count) {
    const bool cut = random.chance(50);
    const moment when = random.between(1500ms, 4s);
    const auto host = static_cast<std::uint32_t>(1 + random.below(3));
    made.faults.push_back(
        fault_of(cut ? fault_kind::isolate_host : fault_kind::break_daemon_connection, when, host,
                 random.between(100ms, 8s)));
  }
  made.heal_at = 16s;
  return made;
}

}  // namespace

TEST_CASE("a signal to a whole cgroup is free of charge") {
  REQUIRE(play_family("a signal to a whole cgroup is free of charge", 1000, to_cgroups) == "");
}

TEST_CASE("a worker that never ends keeps no node from leaving") {
  REQUIRE(play_family("a worker that never ends keeps nobody from leaving", 500, stuck) == "");
}

TEST_CASE("a node that ignores all orders does not delay the others") {
  REQUIRE(play_family("a node that obeys nobody holds nobody up", 500, deaf) == "");
}

TEST_CASE("no round follows one that succeeded") {
  REQUIRE(play_family("no round follows one that succeeded", 2000, succeeding) == "");
}

}  // namespace ddprun::simulation
