// Sessions: hellos and welcomes, sequence numbers, connections that end and come again; and the
// roster, which finds nodes by their session and connection.
#include "rendezvous/core/run/nodes.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"
#include "tests/support/time_origin.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

using ddprun::tests::machine_origin;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a node that speaks another protocol is refused, and nothing else happens") {
  run_story story;
  fake_node& odd = story.node("odd", nodes_of(1, 1));
  odd.greeting.protocol = agent_protocol_version + 1;
  story.connect(odd);
  CHECK(odd.refusal ==
        "of the agent protocol this node speaks version 5, the rendezvous daemon version 4 (ddprun "
        "test): use the same version of ddprun on every node");
  CHECK(odd.connection == 0);
  CHECK(story.view().members.empty());
  CHECK(story.machine().forgettable(story.now));
}

TEST_CASE("a node of another ddprun that speaks the same protocol is taken, and named") {
  run_story story;
  fake_node& other = story.node("b", nodes_of(1, 1));
  other.greeting.version = "9.0";
  story.connect(other);
  CHECK(other.refusal.empty());
  const std::string said =
      "b is ddprun 9.0, the rendezvous daemon ddprun test: they work together, as both speak "
      "version 4 of the agent protocol; still, use the same version of ddprun on every node";
  CHECK(std::count(story.notes.begin(), story.notes.end(), said) == 1);
  SECTION("once for each life of an agent") {
    story.disconnect(other);
    story.connect(other);
    CHECK(std::count(story.notes.begin(), story.notes.end(), said) == 1);
  }
  SECTION("the same one, and one that does not say what it is, are not") {
    const std::size_t notes = story.notes.size();
    for (const std::string version : {"test", "test ", ""}) {
      fake_node& made = story.node("c", nodes_of(1, 1));
      made.greeting.version = version;
      story.connect(made);
    }
    CHECK(std::none_of(
        story.notes.begin() + static_cast<std::ptrdiff_t>(notes), story.notes.end(),
        [](const std::string& note) { return note.find("agent protocol") != std::string::npos; }));
  }
}

TEST_CASE("the welcome names the timers that the run goes by") {
  core::run_options options;
  options.run_id = "story";
  options.version = "4.5";
  options.epoch = 3;
  core::run machine(options);
  const auto welcome_of = [&](std::uint64_t number, const run_settings& settings) {
    hello greeting;
    greeting.session = {1, number};
    greeting.settings = settings;
    core::run_effects effects;
    machine.step(core::agent_joined{number, greeting, "10.0.0.1", "10.0.0.2", 77},
                 run_story::origin, effects);
    const auto& first = std::get<core::send_to_agent>(effects.at(0));
    CHECK(first.connection == number);
    return std::get<welcome>(*first.message);
  };
  run_settings mine = nodes_of(2, 3);
  mine.timing.stop_grace = 77s;
  const welcome first = welcome_of(1, mine);
  CHECK(first.epoch == 3);
  CHECK(first.version == "4.5");
  CHECK(first.timing == mine.timing);
  mine.timing.stop_grace = 78s;
  CHECK_THROWS_AS(welcome_of(2, mine), std::bad_variant_access);  // it is refused
}

TEST_CASE("every message of the daemon carries its epoch, the instance and a growing number") {
  core::run_options options;
  options.epoch = 9;
  run_story story(options);
  fake_node& a = story.joined("a", nodes_of(2, 2));
  const std::uint64_t first = a.wanted.seq;
  CHECK(a.wanted.epoch == 9);
  CHECK(a.wanted.instance == story.view().instance);
  CHECK(a.wanted.instance != 0);
  fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  CHECK(a.wanted.epoch == 9);
  CHECK(a.wanted.seq > first);
  CHECK(a.wanted.instance == b.wanted.instance);
  const std::uint64_t before = a.wanted.seq;
  story.say(a, member_phase::succeeded);
  story.say(b, member_phase::succeeded);
  CHECK(a.wanted.seq > before);
  CHECK(a.wanted.epoch == 9);
}

TEST_CASE("all numbers that follow are above one that a node was told by another daemon") {
  run_story story;
  fake_node& a = story.node("a", nodes_of(2, 2));
  a.state.desired_seq = 5000;
  story.connect(a);
  const fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  CHECK(a.wanted.seq > 5000);
  CHECK(b.wanted.seq > 5000);
}

TEST_CASE("a session that comes again after its node had gone silent is the same node") {
  run_story story;
  fake_node& a = story.node("a", nodes_of(3, 3));
  a.greeting.node_is_explicit = true;
  story.connect(a);
  story.joined("b", nodes_of(3, 3));
  const bool is_half_open = GENERATE(false, true);
  if (!is_half_open) story.disconnect(a);
  story.pass(1s);
  story.connect(a);
  CHECK(a.refusal.empty());
  CHECK(story.view().members.size() == 2);
  CHECK(a.wanted.phase == desired_phase::wait);
}

TEST_CASE("an agent's connection that is replaced is cut, and no longer listened to") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 1));
  story.start_round();
  const connection_id before = a.connection;
  std::optional<connection_id> cut;
  core::run_effects effects;
  hello again = a.greeting;
  again.state = a.state;
  story.machine().step(
      core::agent_joined{before + 100, again, a.peer_address, a.local_address, 999}, story.now,
      effects);
  for (const core::run_effect& effect : effects) {
    if (const auto* const one = std::get_if<core::disconnect_agent>(&effect)) cut = one->connection;
  }
  CHECK(cut == before);
  effects.clear();
  status failed = a.state;
  failed.phase = member_phase::failed;
  ++failed.seq;
  story.machine().step(core::status_received{before, failed}, story.now, effects);
  CHECK(effects.empty());
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE(
    "a status that is older than another, or comes on an unknown connection, changes nothing") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 1));
  story.start_round();
  status old = a.state;
  story.say(a);
  old.phase = member_phase::failed;
  story.step(core::status_received{a.connection, old});
  CHECK(story.view().phase == run_phase::running);
  ++old.seq;
  ++old.seq;
  story.step(core::status_received{999, old});
  CHECK(story.view().phase == run_phase::running);
  story.step(core::status_received{a.connection, old});
  CHECK(story.view().phase == run_phase::stopping);
}

TEST_CASE("a connection that has ended is not ended again") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  core::run_effects effects;
  story.machine().step(core::agent_disconnected{a.connection}, story.now, effects);
  CHECK(std::ranges::none_of(effects, [](const core::run_effect& effect) {
    return std::holds_alternative<core::disconnect_agent>(effect);
  }));
}

TEST_CASE("a session that connects again replaces its old connection") {
  pair_story story;
  const connection_id before = story.b->connection;
  story.connect(*story.b);
  CHECK(story.b->connection != before);
  CHECK(story.b->wanted.phase == desired_phase::run);
  CHECK(story.view().phase == run_phase::running);
  story.step(core::agent_disconnected{before});
  story.pass(5s);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("a reconnect within the grace does not end the round") {
  pair_story story;
  story.disconnect(*story.b);
  story.pass(1900ms);
  story.connect(*story.b);
  story.pass(5s);
  CHECK(story.view().phase == run_phase::running);
}

// `roster` without a run: by what nodes are found, and when they are checked for silence.
namespace {

hello hello_of(std::uint64_t session, const std::string& id, bool is_explicit) {
  hello greeting;
  greeting.session = {0, session};
  greeting.node = id;
  greeting.node_is_explicit = is_explicit;
  return greeting;
}

}  // namespace

TEST_CASE("a node is found by its session, its connection and the id that a person gave it") {
  roster nodes;
  node& one = nodes.admit(hello_of(1, "a", true));
  node& two = nodes.admit(hello_of(2, "b", false));
  nodes.connect(one, 11);
  CHECK(nodes.find(session_id{0, 1}) == &one);
  CHECK(nodes.find(session_id{0, 3}) == nullptr);
  CHECK(nodes.find(connection_id{11}) == &one);
  CHECK(nodes.of_id("a").at(one.order) == &one);
  CHECK(nodes.of_id("b").empty());
  CHECK(&nodes.at(two.order) == &two);
  CHECK(nodes.begin()->second.get() == &one);
  CHECK(nodes.connected() == 1);
  CHECK(&nodes.some_connected() == &one);

  nodes.disconnect(one);
  CHECK(nodes.find(connection_id{11}) == nullptr);
  CHECK(one.connection == 0);
  CHECK(nodes.connected() == 0);

  nodes.remove(one);
  CHECK(nodes.find(session_id{0, 1}) == nullptr);
  CHECK(nodes.of_id("a").empty());
  CHECK(nodes.size() == 1);
}

TEST_CASE("nodes of one id are all found by it") {
  roster nodes;
  node& earlier = nodes.admit(hello_of(1, "a", true));
  node& later = nodes.admit(hello_of(2, "a", true));
  nodes.admit(hello_of(3, "a", false));
  CHECK(nodes.of_id("a") ==
        roster::same_by_order{{earlier.order, &earlier}, {later.order, &later}});
  nodes.remove(earlier);
  CHECK(nodes.of_id("a") == roster::same_by_order{{later.order, &later}});
}

TEST_CASE("a node is looked for once, when it has been silent for so long") {
  roster nodes;
  node& one = nodes.admit(hello_of(1, "a", false));
  node& two = nodes.admit(hello_of(2, "b", false));
  CHECK_FALSE(nodes.next_look());
  one.heard = two.heard = machine_origin;
  nodes.watch(one, 10s);
  nodes.watch(two, 4s);
  CHECK(nodes.next_look() == machine_origin + 4s);
  CHECK(nodes.due(machine_origin + 3s) == nullptr);
  CHECK(nodes.due(machine_origin + 4s) == &two);

  two.heard = machine_origin + 8s;
  nodes.watch(two, 4s);
  CHECK(nodes.next_look() == machine_origin + 10s);
  CHECK(nodes.due(machine_origin + 12s) == &one);
  nodes.unwatch(one);
  CHECK(nodes.due(machine_origin + 12s) == &two);
  nodes.remove(two);
  CHECK_FALSE(nodes.next_look());
}
