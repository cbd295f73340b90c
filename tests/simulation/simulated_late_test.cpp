// Nodes that come late to a restarted daemon: nodes of a newer round than it has found, and nodes
// that stood still while their round went on without them.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <cstdint>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

// The daemon and one node are cut off from the others, about when the second round begins; it is
// started again there, and the training may end before it sees the others.
schedule newer_round(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 3);
  random_source random = random_source(seed).fork(61);
  made.options.settings.nodes_max = 2;
  made.options.settings.nodes_min = static_cast<std::uint32_t>(1 + random.below(2));
  made.options.settings.spares_max = 1;
  const moment fails = 1500ms;
  made.faults.push_back(fault_of(fault_kind::fail_worker, fails, 1));
  made.faults.push_back(fault_of(fault_kind::fail_worker, fails, 2));
  const moment splits = fails + random.between(0ms, 800ms);
  fault cut = fault_of(fault_kind::split, splits, 0, random.between(6s, 30s));
  cut.mask = 0b1110 & ~(1U << (1 + random.below(3)));
  made.faults.push_back(cut);
  made.faults.push_back(fault_of(fault_kind::kill_daemon, splits + random.between(1ms, 100ms), 0,
                                 random.between(1ms, 2s)));
  if (random.chance(50)) {
    const moment ends = splits + random.between(100ms, cut.length);
    made.faults.push_back(fault_of(fault_kind::finish, ends, 0));
  }
  made.heal_at = splits + cut.length;
  return made;
}

// One node is lost because it stands still. When it runs again, the daemon has been started again,
// and the leader of the running round may stand still, too.
schedule thawed(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 3);
  random_source random = random_source(seed).fork(62);
  made.options.settings.nodes_min = static_cast<std::uint32_t>(1 + random.below(2));
  const auto first = static_cast<std::uint32_t>(1 + random.below(3));
  const auto second = static_cast<std::uint32_t>(1 + (first + random.below(2)) % 3);
  const moment stops = 1500ms + random.between(0ms, 500ms);
  const duration length = random.between(9s, 13s);
  made.faults.push_back(fault_of(fault_kind::stop_agent, stops, first, length, 1));
  const moment goes_on = stops + length;
  const duration away = random.between(100ms, 3s);
  const moment dies = goes_on - away + random.between(-1s, 1s);
  made.faults.push_back(fault_of(fault_kind::kill_daemon, dies, 0, away));
  if (random.chance(70))
    made.faults.push_back(fault_of(fault_kind::stop_agent, dies + random.between(0ms, 1s), second,
                                   random.between(1s, 6s)));
  made.heal_at = goes_on + 6s;
  return made;
}

// The whole machine stands still, and its clock with it, so the node cannot know.
schedule paused(std::uint64_t seed) {
  schedule made = thawed(seed);
  made.faults.front().kind = fault_kind::freeze_host;
  return made;
}

}  // namespace

TEST_CASE("a newer round than a daemon has found comes late") {
  REQUIRE(play_family("a newer round than a daemon has found comes late", 1000, newer_round) == "");
}

TEST_CASE("nodes that stood still meet an empty daemon") {
  REQUIRE(play_family("nodes that stood still meet an empty daemon", 1000, thawed) == "");
}

TEST_CASE("machines that were paused meet an empty daemon") {
  REQUIRE(play_family("machines that were paused meet an empty daemon", 1000, paused) == "");
}

}  // namespace ddprun::simulation
