// Daemons that keep a journal, under random faults, and when all that knew something die. With an
// intact journal nothing that was announced is taken back; with one that is deleted, replaced by an
// old copy, or cannot be written, there are still never live workers of two rounds of an instance.
// journal_story_test.cpp has what must happen in the worst cases.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

// Two of three schedules have at least one of the faults that kill all processes that know
// something.
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

// The agent that hosts the daemon dies and is started again while another node cannot reach it;
// after that, all may die.
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

// The daemon dies. Its agents cannot reach the next one for a while, or for longer than they may
// live without it, but a newcomer can.
schedule out_of_reach(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 3);
  random_source random = random_source(seed).fork(64);
  made.options.settings.nodes_min = static_cast<std::uint32_t>(1 + random.below(2));
  made.options.settings.spares_max = 1;
  const moment dies = 500ms + random.between(0ms, 3s);
  made.faults.push_back(fault_of(fault_kind::kill_daemon, dies, 0, random.between(1ms, 5s)));
  made.heal_at = dies;
  for (std::uint32_t host = 1; host <= 3; ++host) {
    const duration away = random.chance(70) ? random.between(0s, 15s) : random.between(15s, 30s);
    part(made, host, 0, dies, away);
    made.heal_at = std::max(made.heal_at, dies + away);
  }
  made.faults.push_back(fault_of(fault_kind::join, dies + random.between(0s, 25s), 0));
  if (random.chance(30))
    made.faults.push_back(fault_of(fault_kind::kill_daemon, dies + random.between(5s, 25s), 0, 1s));
  made.heal_at += random.between(0s, 5s);
  return made;
}

schedule three_runs(std::uint64_t seed) {
  schedule made = random_schedule(seed);
  made.options.settings.nodes_max = 2;
  made.options.settings.nodes_min = std::min(made.options.settings.nodes_min, 2U);
  made.nodes = 6;
  made.run_ids = 3;
  return with_ends(std::move(made), 65);
}

// Three nodes, a failure, and the end; the daemon dies after one of the messages, now and then
// together with all agents.
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
  REQUIRE(play_family("random faults with a journal", 1000,
                      [](std::uint64_t seed) { return kept(random_schedule(seed)); }) == "");
}

TEST_CASE("random faults round an embedded daemon with a journal") {
  REQUIRE(play_family("random faults round an embedded daemon with a journal", 1000,
                      [](std::uint64_t seed) { return kept(embedded_schedule(seed)); }) == "");
}

TEST_CASE("random faults beside a daemon with a journal") {
  REQUIRE(play_family("random faults beside a daemon with a journal", 1000,
                      [](std::uint64_t seed) { return kept(beside_an_agent(seed)); }) == "");
}

TEST_CASE("all members die and a journal is kept") {
  REQUIRE(play_family("all members die and a journal is kept", 2000,
                      [](std::uint64_t seed) { return kept(with_ends(one_of(seed), 62)); }) == "");
}

TEST_CASE("the hosting agent dies while another node is cut off") {
  REQUIRE(play_family("the hosting agent dies while another node is cut off", 500,
                      [](std::uint64_t seed) { return kept(host_and_cut(seed)); }) == "");
}

TEST_CASE("agents are out of reach of the daemon that remembers them") {
  REQUIRE(play_family("agents are out of reach of the daemon that remembers them", 750,
                      [](std::uint64_t seed) { return kept(out_of_reach(seed)); }) == "");
}

TEST_CASE("three runs on a daemon with a journal") {
  REQUIRE(play_family("three runs on a daemon with a journal", 250,
                      [](std::uint64_t seed) { return kept(three_runs(seed)); }) == "");
}

TEST_CASE("a daemon with a journal dies after each single message") {
  REQUIRE(play_family("a daemon with a journal dies after each single message", 12 * 150,
                      [](std::uint64_t seed) { return kept(at_each_message(seed)); }) == "");
}

TEST_CASE("all members die and the journal is tampered with") {
  REQUIRE(play_family("all members die and the journal is tampered with", 1500,
                      [](std::uint64_t seed) { return tampered(with_ends(one_of(seed), 63)); }) ==
          "");
}

}  // namespace ddprun::simulation
