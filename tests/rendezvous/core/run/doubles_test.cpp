// Rule 2: of the nodes that come with one --node-id, one takes part; those of one --node-rank are
// in choose_test.cpp.
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"

#include <string>

using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

namespace {

struct ids_story : run_story {
  fake_node& come(const std::string& id, const run_settings& settings = nodes_of(2, 2),
                  const std::string& address = {}) {
    fake_node& made = node(id, settings);
    made.greeting.node_is_explicit = true;
    if (!address.empty()) made.peer_address = address;
    connect(made);
    return made;
  }
};

const std::string advice = ": give each node its own --node-id";

bool waits(const fake_node& who) {
  return who.refusal.empty() && who.wanted.phase == desired_phase::wait;
}

}  // namespace

TEST_CASE("a node id that is used on the same host is refused at once") {
  ids_story story;
  fake_node& first = story.come("a");
  CHECK(story.come("a", nodes_of(2, 2), first.peer_address).refusal ==
        "node id a is already used by a node at 10.0.0.1" + advice);
  CHECK(first.refusal.empty());
}

TEST_CASE("a node id that is used on another host is refused with the next word from there") {
  ids_story story;
  fake_node& first = story.come("a");
  story.now += 1ms;
  fake_node& twin = story.come("a");
  CHECK(waits(twin));
  CHECK(story.view().phase == run_phase::gathering);  // the two of them are not two nodes
  CHECK(story.why().find("waiting for 1 of 2 nodes") == 0);
  story.say(first);
  CHECK(twin.refusal == "node id a is already used by a node at 10.0.0.1" + advice);
  fake_node& other = story.come("b");
  story.start_round();
  CHECK(first.wanted.phase == desired_phase::run);
  CHECK(other.wanted.phase == desired_phase::run);
}

TEST_CASE("one that comes with a dead node's id waits until that is lost, and is in its place") {
  ids_story story;
  const bool is_elastic = GENERATE(false, true);
  const run_settings settings = is_elastic ? nodes_of(1, 2) : nodes_of(2, 2);
  fake_node& one = story.come("a", settings);
  fake_node& two = story.come("b", settings);
  story.start_round();
  // Before and after what counts as a silence: nothing has closed its connection.
  story.pass(GENERATE(as<duration>(), 500ms, 4s), {&two});
  fake_node& again = story.come("b", settings);
  CHECK(waits(again));
  CHECK(story.view().phase == run_phase::running);
  story.pass(34s, {&two});
  story.stop_all();
  story.pass(60s, {&two});
  story.start_round();
  CHECK(one.wanted.phase == desired_phase::run);
  CHECK(again.wanted.phase == desired_phase::run);
  CHECK(again.wanted.assignment->group_world_size == 2);
}

TEST_CASE("one that comes with the id of a member that lives is refused, whatever is free") {
  ids_story story;
  fake_node& one = story.come("a", nodes_of(1, 3));
  fake_node& two = story.come("b", nodes_of(1, 3));
  story.pass(60s);
  story.start_round();
  story.pass(100ms, {&one, &two});
  fake_node& twin = story.come("b", nodes_of(1, 3));
  CHECK(waits(twin));
  story.say(one);
  CHECK(waits(twin));
  story.say(two);
  CHECK(twin.refusal.find("node id b is already used by a node at 10.0.0.2") == 0);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("two that come for one dead node: the first takes its place, the second is refused") {
  ids_story story;
  fake_node& one = story.come("a");
  fake_node& two = story.come("b");
  story.start_round();
  story.pass(500ms, {&two});
  fake_node& first = story.come("b");
  story.now += 1ms;
  fake_node& second = story.come("b");
  story.say(first);
  CHECK(waits(first));
  CHECK(second.refusal.find("node id b is already used by a node at " + first.peer_address) == 0);
  story.say(one);
}

TEST_CASE("a member that was silent keeps its place; what came for it steps in when it dies") {
  ids_story story;
  fake_node& one = story.come("a");
  fake_node& two = story.come("b");
  story.start_round();
  story.pass(4s, {&two});
  fake_node& again = story.come("b");
  story.pass(20s);
  CHECK(story.view().phase == run_phase::running);
  CHECK(two.wanted.phase == desired_phase::run);
  CHECK(waits(again));
  story.guardian(two);
  story.stop_all();
  story.pass(1s);
  story.start_round();
  CHECK(one.wanted.phase == desired_phase::run);
  CHECK(again.wanted.phase == desired_phase::run);
}

TEST_CASE(
    "the id of a node whose round a new daemon takes over is its own from the first word on") {
  orphans_story story(2, nodes_of(2, 2));
  fake_node& member = *story.members[1];
  member.greeting.node_is_explicit = true;
  story.connect(member);
  story.now += 1ms;
  fake_node& twin = story.node("n1", story.settings);
  twin.greeting.node_is_explicit = true;
  story.connect(twin);
  CHECK(waits(twin));
  story.say(member);
  CHECK(twin.refusal.find("node id n1 is already used by a node at " + member.peer_address) == 0);
  story.connect(*story.members[0]);
  CHECK(story.view().phase == run_phase::running);
}
