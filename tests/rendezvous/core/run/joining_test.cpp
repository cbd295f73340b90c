// Rule 10: a node that joins a running job waits as a spare, restarts the round, or is refused
// because there is no room.
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

TEST_CASE("a join while running waits by default, and restarts the round where asked for") {
  run_settings settings = nodes_of(1, 2);
  settings.timing.last_call_timeout = 1s;
  SECTION("wait") {
    run_story story;
    story.joined("a", settings);
    story.pass(1s);
    story.start_round();
    const fake_node& late = story.joined("b", settings);
    CHECK(late.wanted.phase == desired_phase::wait);
    CHECK(story.view().phase == run_phase::running);
  }
  SECTION("restart") {
    settings.on_join = join_policy::restart;
    run_story story;
    fake_node& first = story.joined("a", settings);
    story.pass(1s);
    story.start_round();
    story.joined("b", settings);
    CHECK(first.wanted.phase == desired_phase::stop);
    CHECK(first.wanted.grace == 30s);
    story.stop_all();
    story.pass(500ms);
    CHECK(first.wanted.phase == desired_phase::prepare);
    CHECK(first.wanted.group_world_size == 2);
    CHECK(first.wanted.restarts_used == 0);
  }
}

TEST_CASE("a join restarts a round that runs and has room, no other") {
  run_settings settings = nodes_of(1, 2);
  settings.on_join = join_policy::restart;
  settings.spares_max = 1;
  settings.timing.last_call_timeout = 1s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  SECTION("not one that is full") {
    story.joined("b", settings);
    story.start_round();
    story.joined("c", settings);
    CHECK(story.view().phase == run_phase::running);
  }
  SECTION("not one that is prepared: the next heartbeat after its start does") {
    story.pass(1s);
    REQUIRE(story.view().phase == run_phase::preparing);
    fake_node& b = story.joined("b", settings);
    CHECK(story.view().phase == run_phase::preparing);
    story.start_round();
    story.say(b);
    CHECK(story.view().phase == run_phase::stopping);
  }
  SECTION("not one of which not all have started: the next heartbeat after that does") {
    story.pass(1s);
    fake_node& leader = story.node_in(desired_phase::prepare);
    story.obey(leader);
    leader.state.phase = member_phase::preparing;
    leader.state.service_port = leader.state.master_port = 29501;
    story.say(leader);
    REQUIRE(story.view().phase == run_phase::running);
    fake_node& b = story.joined("b", settings);
    story.say(b);
    CHECK(story.view().phase == run_phase::running);
    CHECK(b.wanted.text.find("round 1 of 1 node") != std::string::npos);
    CHECK(b.wanted.text.find("--on-join") == std::string::npos);  // it has that already
    story.say(leader, member_phase::running);
    CHECK(story.view().phase == run_phase::running);
    story.say(b);
    CHECK(story.view().phase == run_phase::stopping);
  }
  SECTION("free of charge, whatever its workers make of the stop, and after a time of quiet") {
    story.pass(1s);
    story.start_round();
    fake_node& b = story.joined("b", settings);
    CHECK(a.wanted.text == "b joins: the round restarts with it");
    CHECK(a.wanted.is_ordinary);
    story.fail(a, 9);
    story.stop_all();
    CHECK(story.view().phase == run_phase::settling);
    CHECK_FALSE(story.view().root_cause);
    story.say(b);
    story.pass(600ms);
    CHECK(story.view().round == 2);
    CHECK(story.view().restarts_used == 0);
    story.start_round();
    // That holds for this stop only.
    story.fail(a, 9);
    story.stop_all();
    CHECK(story.view().restarts_used == 1);
  }
  SECTION("a joiner shows again that it is there") {
    story.pass(1s);
    story.start_round();
    story.now += 1ms;
    fake_node& b = story.joined("b", settings);
    story.stop_all();
    story.pass(1900ms, {&b});
    CHECK(story.view().phase == run_phase::settling);
    story.say(b);
    CHECK(story.view().phase == run_phase::preparing);
  }
}

TEST_CASE("beyond max a join is refused unless spares were asked for") {
  run_story story;
  run_settings settings = nodes_of(1, 1);
  settings.spares_max = 1;
  story.joined("a", settings);
  fake_node& spare = story.joined("b", settings);
  CHECK(spare.refusal.empty());
  CHECK(spare.wanted.phase == desired_phase::wait);
  CHECK(story.view().members.at(1).spare);
  const fake_node& third = story.joined("c", settings);
  CHECK(third.refusal ==
        "run story is full: 1 node and 1 spare are here; if this is another job, give it another "
        "--rdzv-id, because this one is in use; otherwise raise --nnodes or --spares");
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
    // Once it has obeyed, there is one node too many.
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
