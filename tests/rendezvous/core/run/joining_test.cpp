// Nodes that come: hellos that are refused, sessions that come again, what those who wait are told.
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <optional>
#include <string>

using namespace ddprun;
using namespace ddprun::tests;
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

TEST_CASE("every word of the daemon carries its epoch, the instance and a growing number") {
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

TEST_CASE("all who wait share one message, and one that knows of a later number gets a later one") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(9, 9));
  fake_node& b = story.joined("b", nodes_of(9, 9));
  fake_node& c = story.joined("c", nodes_of(9, 9));
  story.beat_all();
  CHECK(a.wanted_buffer == b.wanted_buffer);
  CHECK(b.wanted_buffer == c.wanted_buffer);
  const std::size_t told = a.desired_count;
  story.beat_all();
  CHECK(a.desired_count == told);
  fake_node& late = story.node("late", nodes_of(9, 9));
  late.state.desired_seq = 5000;
  story.connect(late);
  CHECK(late.wanted.seq > 5000);
  // It has been told already as much as this: the same again would not be news.
  story.disconnect(a);
  story.connect(a);
  CHECK(a.wanted.seq > b.wanted.seq);
}

TEST_CASE("a number that a node was told by another daemon is passed by all that follows") {
  run_story story;
  fake_node& a = story.node("a", nodes_of(2, 2));
  a.state.desired_seq = 5000;
  story.connect(a);
  const fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  CHECK(a.wanted.seq > 5000);
  CHECK(b.wanted.seq > 5000);
}

TEST_CASE("who comes and goes while a run gathers changes how many are here") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(3, 3));
  fake_node& b = story.joined("b", nodes_of(3, 3));
  story.disconnect(b);
  story.say(a);
  CHECK(a.wanted.text == "waiting for 2 of 3 nodes; here: a (2 workers)");
  story.connect(b);
  story.say(a);
  CHECK(a.wanted.text == "waiting for 1 of 3 nodes; here: a (2 workers), b (2 workers)");
  b.state.unkillable = 1;
  story.say(b);
  story.say(a);
  CHECK(a.wanted.text ==
        "waiting for 2 of 3 nodes; here: a (2 workers); b has workers that do not end");
  b.state.unkillable = 0;
  story.say(b);
  CHECK(b.wanted.text == "waiting for 1 of 3 nodes; here: a (2 workers), b (2 workers)");
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

TEST_CASE("a status that was overtaken by a newer one, or is nobody's, changes nothing") {
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

TEST_CASE("an explicit id is free again when its node has left, or its instance is closed") {
  run_story story;
  const auto explicit_node = [&](const char* name) -> fake_node& {
    fake_node& made = story.node(name, nodes_of(1, 2));
    made.greeting.node_is_explicit = true;
    made.peer_address = "10.0.0.1";  // one from elsewhere may replace it: doubles_test.cpp
    story.connect(made);
    return made;
  };
  fake_node& first = explicit_node("a");
  SECTION("left") {
    story.goodbye(first);
    CHECK(explicit_node("a").refusal.empty());
    CHECK(explicit_node("a").refusal.find("node id a is already used") == 0);
  }
  SECTION("away for the moment") {
    story.disconnect(first);
    CHECK(explicit_node("a").refusal.empty());
  }
  SECTION("told that it is over") {
    story.ask_to_leave(first, SIGTERM);
    REQUIRE(first.wanted.phase == desired_phase::close);
    CHECK(explicit_node("a").refusal.empty());
  }
  SECTION("heard of less than three heartbeats ago") {
    story.now += 3s - 1ms;
    CHECK_FALSE(explicit_node("a").refusal.empty());
    story.now += 1ms;
    CHECK(explicit_node("a").refusal.empty());
  }
  SECTION("of another name") {
    CHECK(explicit_node("b").refusal.empty());
  }
  SECTION("one that did not choose its name") {
    CHECK(story.joined("a", nodes_of(1, 2)).refusal.empty());
  }
}

TEST_CASE("an earlier life that goes does not take the name from the later one") {
  run_story story;
  fake_node& first = story.node("a", nodes_of(1, 3));
  first.greeting.node_is_explicit = true;
  story.connect(first);
  story.now += 5s;
  fake_node& second = story.node("a", nodes_of(1, 3));
  second.greeting.node_is_explicit = true;
  story.connect(second);
  REQUIRE(second.refusal.empty());
  story.goodbye(first);
  fake_node& third = story.node("a", nodes_of(1, 3));
  third.greeting.node_is_explicit = true;
  third.peer_address = second.peer_address;
  story.connect(third);
  CHECK(third.refusal.find("node id a is already used") == 0);
}

TEST_CASE("a full run still takes one that comes to be fenced, and no other") {
  run_settings settings = nodes_of(1, 1);
  run_story story;
  story.joined("a", settings);
  story.start_round();
  fake_node& stray = story.node("stray", settings);
  SECTION("its workers may live") {
    stray.state.instance = 4711;
    stray.state.round = 9;
    stray.state.phase = member_phase::running;
    story.connect(stray);
    CHECK(stray.refusal.empty());
    CHECK(stray.wanted.phase == desired_phase::fence);
    // Once it has obeyed it is one too many.
    story.rejoin(stray);
    CHECK(stray.refusal.find("run story went on without this node and is full") == 0);
  }
  SECTION("they cannot: its round had not begun") {
    stray.state.instance = 4711;
    stray.state.phase = member_phase::preparing;
    story.connect(stray);
    CHECK(stray.refusal.find("run story is full") == 0);
  }
  SECTION("they have stopped") {
    stray.state.instance = 4711;
    stray.state.round = 9;
    stray.state.phase = member_phase::stopped;
    story.connect(stray);
    CHECK(stray.refusal.find("run story is full") == 0);
  }
}

TEST_CASE("room is for max nodes and the spares together") {
  run_settings settings = nodes_of(1, 2);
  settings.spares_max = 1;
  run_story story;
  story.joined("a", settings);
  story.joined("b", settings);
  story.start_round();
  CHECK(story.joined("c", settings).refusal.empty());
  CHECK_FALSE(story.joined("d", settings).refusal.empty());
}

TEST_CASE("of too many that a restarted daemon let wait, the last to come are refused") {
  run_settings settings = nodes_of(1, 2);
  settings.spares_max = 1;
  run_story story(restarted());
  std::vector<fake_node*> nodes;
  for (int index = 0; index < 5; ++index)
    nodes.push_back(&story.joined("n" + std::to_string(index), settings));
  story.pass(10s);
  REQUIRE(story.view().phase == run_phase::preparing);
  for (int index = 0; index < 3; ++index)
    CHECK(nodes[index]->refusal.empty());
  for (int index = 3; index < 5; ++index)
    CHECK(nodes[index]->refusal.find("run story is full: 2 nodes and 1 spare are here") == 0);
  CHECK(story.view().members.size() == 3);
}

TEST_CASE("SIGINT at a node that waits ends the run for all, with its code and name") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(3, 3));
  fake_node& b = story.joined("b", nodes_of(3, 3));
  story.ask_to_leave(b, SIGINT);
  for (const fake_node* const who : {&a, &b}) {
    CHECK(who->wanted.phase == desired_phase::close);
    CHECK(who->wanted.exit_code == 130);
    REQUIRE(who->wanted.root_cause);
    CHECK(who->wanted.root_cause->kind == cause_class::operator_stop);
    CHECK(who->wanted.root_cause->code == SIGINT);
    CHECK(who->wanted.root_cause->node == "b");
  }
}

TEST_CASE("SIGINT at a spare stops the round of the others") {
  run_settings settings = nodes_of(1, 1);
  settings.spares_max = 1;
  run_story story;
  fake_node& a = story.joined("a", settings);
  story.start_round();
  fake_node& spare = story.joined("b", settings);
  story.ask_to_leave(spare, SIGINT);
  CHECK(a.wanted.phase == desired_phase::stop);
  CHECK(a.wanted.grace == 30s);
  CHECK(a.wanted.is_unreported);
  story.stop_all();
  REQUIRE(a.wanted.root_cause);
  CHECK(a.wanted.root_cause->round == 1);
  CHECK(a.wanted.phase == desired_phase::close);
  CHECK(a.wanted.exit_code == 130);
  CHECK(spare.wanted.exit_code == 130);
}

TEST_CASE("of two groups that disagree the larger is chosen, of equal ones the first") {
  run_story story(restarted());
  fake_node& one = story.joined("a", nodes_of(1, 4));
  fake_node& two = story.joined("b", nodes_of(1, 5));
  SECTION("equal") {
    story.pass(41s);
    CHECK(one.refusal.empty());
    CHECK_FALSE(two.refusal.empty());
  }
  SECTION("larger") {
    story.joined("c", nodes_of(1, 5));
    story.pass(41s);
    CHECK_FALSE(one.refusal.empty());
    CHECK(two.refusal.empty());
  }
}

TEST_CASE("after a fall back to gathering the last call is a new one") {
  run_settings settings = nodes_of(2, 3);
  settings.timing.last_call_timeout = 20s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  story.pass(20s);
  story.start_round();
  REQUIRE(story.view().phase == run_phase::running);
  story.guardian(b);
  story.stop_all();
  story.pass(1s);
  REQUIRE(story.view().phase == run_phase::gathering);
  CHECK(a.wanted.phase == desired_phase::wait);
  story.joined("c", settings);
  const time_point called = story.now;
  story.pass(19s);
  CHECK(story.view().phase == run_phase::gathering);
  story.pass(1s);
  CHECK(story.view().phase == run_phase::preparing);
  CHECK(story.now >= called + 20s);
}

TEST_CASE("a run that gathers again gives up join_timeout after it fell back to that") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  story.pass(700s);
  story.guardian(b);
  story.stop_all();
  story.pass(1s);
  REQUIRE(story.view().phase == run_phase::gathering);
  story.pass(598s);
  CHECK(story.view().phase == run_phase::gathering);
  story.pass(2s);
  CHECK(a.wanted.phase == desired_phase::close);
  CHECK(a.wanted.exit_code == unmet_exit_code);
  // The loss is why nobody came.
  REQUIRE(a.wanted.root_cause);
  CHECK(a.wanted.root_cause->kind == cause_class::node_lost);
}

TEST_CASE("a connection that has ended is not ended again") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  core::run_effects effects;
  story.machine().step(core::agent_disconnected{a.connection}, story.now, effects);
  for (const core::run_effect& effect : effects)
    CHECK_FALSE(std::holds_alternative<core::disconnect_agent>(effect));
}
