// Daemons that keep a journal, under random faults and where everybody who knew dies: with a
// journal that is kept well nothing that was told is taken back; with one that is deleted, put back
// from an old copy, or cannot be written, still no two rounds of an instance live at once.
// What must happen after the worst: journal_story_test.cpp.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <utility>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

// In two of three schedules there is at least one of those faults that take all who know.
schedule with_ends(schedule made, std::uint64_t stream) {
  random_source random = random_source(made.options.seed).fork(stream);
  const timers& timing = made.options.settings.timing;
  for (fault& each : made.faults) {
    if (!random.chance(35)) continue;
    each.kind = random.chance(50) ? fault_kind::kill_all : fault_kind::kill_knowing;
    const duration lengths[] = {1ms, 500ms, timing.node_timeout, timing.orphan_limit};
    each.length = lengths[random.below(4)] + random.between(0ms, 2s);
    if (random.chance(50)) each.mask = 0;
  }
  return made;
}

schedule one_of(std::uint64_t seed) {
  switch (seed % 3) {
    case 0:
      return embedded_schedule(seed);
    case 1:
      return beside_an_agent(seed);
    default:
      return random_schedule(seed);
  }
}

// The agent round the daemon dies and is started again, while another node is out of its reach; and
// then perhaps all of them.
schedule host_and_cut(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 3);
  made.embedded = made.options.embeds = true;
  random_source random = random_source(seed).fork(61);
  made.options.settings.nodes_min = static_cast<std::uint32_t>(1 + random.below(3));
  made.options.settings.spares_max = 1;
  const moment dies = 1s + random.between(0ms, 3s);
  const auto away = static_cast<std::uint32_t>(2 + random.below(2));
  const duration cut = random.between(500ms, 15s);
  made.faults.push_back(
      fault_of(fault_kind::isolate_host, dies - random.between(0ms, 1s), away, cut));
  made.faults.push_back(
      fault_of(fault_kind::kill_agent, dies, 1, random.between(1ms, random.chance(50) ? 1s : 8s)));
  if (random.chance(30))
    made.faults.push_back(
        fault_of(fault_kind::fail_worker, dies + random.between(0s, 5s), 5 - away));
  if (random.chance(30))
    made.faults.push_back(fault_of(fault_kind::kill_all, dies + random.between(2s, 8s), 0, 1s));
  made.heal_at = dies + cut + random.between(0ms, 5s);
  return made;
}

// Three nodes, a failure, and the end; the daemon dies after one message, now and then with all.
schedule at_each_message(std::uint64_t seed) {
  schedule made = quiet_schedule(seed % 12, 3);
  made.options.settings.nodes_min = 2;
  made.options.settings.spares_max = 1;
  made.faults.push_back(fault_of(fault_kind::fail_worker, 1500ms, 2));
  made.faults.push_back(fault_of(fault_kind::finish, 4s, 0));
  made.daemon_messages = 1 + seed / 12 % 150;
  const duration returns[] = {1ms, 300ms, 900ms, 3100ms, 5500ms, 12s};
  made.daemon_returns = returns[seed % 6];
  if (seed % 2 == 0)
    made.faults.push_back(fault_of(fault_kind::kill_all, 1s + 37ms * (seed % 97), 0, 1s));
  made.heal_at = 17s;
  return made;
}

schedule kept(schedule made) {
  return with_journal(std::move(made), journal_kind::kept);
}

schedule tampered(schedule made) {
  const journal_kind kinds[] = {journal_kind::lost, journal_kind::rolled_back,
                                journal_kind::failing};
  const journal_kind kind = kinds[made.options.seed / 3 % 3];
  return with_journal(std::move(made), kind);
}

}  // namespace

TEST_CASE("random faults with a journal") {
  REQUIRE(play_family("random faults with a journal", 2000,
                      [](std::uint64_t seed) { return kept(random_schedule(seed)); }) == "");
}

TEST_CASE("random faults round an embedded daemon with a journal") {
  REQUIRE(play_family("random faults round an embedded daemon with a journal", 2000,
                      [](std::uint64_t seed) { return kept(embedded_schedule(seed)); }) == "");
}

TEST_CASE("random faults beside a daemon with a journal") {
  REQUIRE(play_family("random faults beside a daemon with a journal", 2000,
                      [](std::uint64_t seed) { return kept(beside_an_agent(seed)); }) == "");
}

TEST_CASE("all who know die and a journal is kept") {
  REQUIRE(play_family("all who know die and a journal is kept", 3000,
                      [](std::uint64_t seed) { return kept(with_ends(one_of(seed), 62)); }) == "");
}

TEST_CASE("the hosting agent dies while another node is cut off") {
  REQUIRE(play_family("the hosting agent dies while another node is cut off", 1000,
                      [](std::uint64_t seed) { return kept(host_and_cut(seed)); }) == "");
}

TEST_CASE("a daemon with a journal dies after each single message") {
  REQUIRE(play_family("a daemon with a journal dies after each single message", 12 * 150,
                      [](std::uint64_t seed) { return kept(at_each_message(seed)); }) == "");
}

TEST_CASE("all who know die and the journal is tampered with") {
  REQUIRE(play_family("all who know die and the journal is tampered with", 3000,
                      [](std::uint64_t seed) { return tampered(with_ends(one_of(seed), 63)); }) ==
          "");
}

}  // namespace ddprun::simulation
