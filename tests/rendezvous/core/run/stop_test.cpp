// Rule 4: how a round stops, and which node is a candidate afterwards.
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"
#include "tests/support/trio_story.hpp"

#include <algorithm>
#include <csignal>

using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

// Nodes that stop late, or never, and losses in a row.
TEST_CASE("a node that speaks but never ends its stop takes itself out; the others go on") {
  const run_settings settings = nodes_of(1, 2);
  pair_story story(settings);
  fake_node& a = *story.a;
  fake_node& b = *story.b;
  story.fail(a, 1);
  story.say(a, member_phase::stopping);
  story.say(a, member_phase::stopped);
  story.say(b, member_phase::stopping);
  const timers& timing = settings.timing;
  story.pass(timing.drain_grace + timing.kill_wait + timing.stop_grace + timing.node_timeout);
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(a.wanted.phase == desired_phase::stop);
  story.pass(timing.node_timeout);
  CHECK(a.wanted.phase == desired_phase::prepare);
  CHECK(a.wanted.group_world_size == 1);
  CHECK(std::count_if(story.notes.begin(), story.notes.end(), [](const std::string& text) {
          return text.starts_with("b has not ended its workers 60 s after");
        }) == 1);
  story.start_round();
  // Once it has stopped, it is a node like any other.
  story.say(b, member_phase::stopped);
  CHECK(b.wanted.phase == desired_phase::wait);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("a node that comes back late is given as long to stop as any other") {
  pair_story story(nodes_of(1, 2));
  fake_node& a = *story.a;
  fake_node& b = *story.b;
  story.disconnect(b);
  story.disconnect(a);
  story.pass(100s);  // no member acknowledges, so the stop goes on
  REQUIRE(story.view().phase == run_phase::stopping);
  story.connect(b);
  story.say(b, member_phase::stopping);
  story.pass(30s);
  CHECK(story.view().phase == run_phase::stopping);
  story.say(b, member_phase::stopped);
  CHECK(b.wanted.phase != desired_phase::fence);
}

TEST_CASE("a node that speaks but never begins its stop is lost, unanswered, and fenced") {
  const run_settings settings = nodes_of(1, 2);
  pair_story story(settings);
  fake_node& a = *story.a;
  fake_node& b = *story.b;
  story.fail(a, 1);
  story.say(a, member_phase::stopping);
  story.say(a, member_phase::stopped);
  const time_point stop_told = story.now;
  story.pass(60s - 1ms);
  CHECK(b.answered == b.state.seq);
  // The test asks for the next deadline, so no step happens to come at the right time by chance.
  const auto next = story.machine().next_deadline();
  REQUIRE(next);
  CHECK(*next == stop_told + 60s);
  story.pass(1ms);
  CHECK(story.view().phase == run_phase::stopping);
  const std::uint64_t answered = b.answered;
  story.say(b);
  CHECK(b.answered == answered);
  SECTION("for good: the round goes on after its fence, and it has no lease after that") {
    story.connect(b);
    CHECK(b.wanted.phase == desired_phase::stop);
    CHECK(b.answered == answered);
    // Its last ack was half a second before.
    story.pass(7800ms);
    CHECK(story.view().phase == run_phase::stopping);
    story.pass(200ms);
    CHECK(a.wanted.phase == desired_phase::prepare);
    CHECK(a.wanted.group_world_size == 1);
    CHECK(b.wanted.phase == desired_phase::fence);
    story.say(b);
    CHECK(b.answered == answered);
    story.rejoin(b);
    CHECK(b.answered == b.state.seq);
    CHECK(b.wanted.phase == desired_phase::wait);
    CHECK(story.view().node_losses == 0);
  }
  SECTION("until it obeys after all") {
    story.say(b, member_phase::stopping);
    CHECK(b.answered == b.state.seq);
    story.pass(20s);
    CHECK(story.view().round == 1);
    story.say(b, member_phase::stopped);
    story.pass(1s);
    CHECK(story.view().round == 2);
    CHECK(a.wanted.group_world_size == 2);
  }
}

// Otherwise it would be chosen, waited for and lost again as long as restarts are left.
TEST_CASE("a node that did nothing it was told is no candidate until it has") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 2));
  fake_node& b = story.joined("b", nodes_of(1, 2));
  fake_node& leader = story.node_in(desired_phase::prepare);
  REQUIRE(&leader == &a);
  run_story::obey(a);
  a.state.phase = member_phase::preparing;
  a.state.service_port = a.state.master_port = 29501;
  story.say(a);
  run_story::obey(a);
  a.state.assignment = a.wanted.assignment;
  story.say(a, member_phase::running);
  story.pass(60s);  // b never starts
  story.say(a, member_phase::stopping);
  story.say(a, member_phase::stopped);
  story.pass(75s);  // nor does it stop, nor isolate itself
  CHECK(story.view().round == 2);
  CHECK(a.wanted.group_world_size == 1);
  story.start_round();
  story.pass(5s);
  CHECK(b.wanted.phase == desired_phase::wait);
  story.fail(a, 1);
  story.stop_all();
  CHECK(story.view().round == 3);
  CHECK(a.wanted.group_world_size == 1);
  story.start_round();
  run_story::obey(b);
  story.say(b);
  story.fail(a, 1);
  story.stop_all();
  story.beat_all();
  CHECK(story.view().round == 4);
  CHECK(a.wanted.group_world_size == 2);
}

TEST_CASE("why names a node whose workers do not end, for either reason") {
  pair_story story(nodes_of(2, 2));
  story.fail(*story.a, 1);
  SECTION("that no signal ends") {
    story.b->state.unkillable = 1;
    story.stop_all();
  }
  SECTION("that stop for longer than any stop takes") {
    story.say(*story.a, member_phase::stopped);
    story.say(*story.b, member_phase::stopping);
    story.pass(60s);
  }
  CHECK(story.view().phase == run_phase::gathering);
  CHECK(story.why().find("; b has workers that do not end") != std::string::npos);
}

TEST_CASE("why names a node that does nothing that it is told") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  story.joined("b", nodes_of(2, 2));
  REQUIRE(&story.node_in(desired_phase::prepare) == &a);
  run_story::obey(a);
  a.state.phase = member_phase::preparing;
  a.state.service_port = a.state.master_port = 29501;
  story.say(a);
  run_story::obey(a);
  a.state.assignment = a.wanted.assignment;
  story.say(a, member_phase::running);
  story.pass(60s);  // b never starts
  story.say(a, member_phase::stopping);
  story.say(a, member_phase::stopped);
  story.pass(75s);  // nor does it stop
  CHECK(story.view().phase == run_phase::gathering);
  CHECK(story.why().find("; b does not carry out what the daemon orders") != std::string::npos);
}

// The stop of a round: which nodes are told, what ends it, what it costs.
namespace {

struct trio_in_its_second : trio_story {
  explicit trio_in_its_second(const run_settings& settings = nodes_of(1, 3))
      : trio_story(settings) {
    start_round();
    now += 1s;
  }
};

// From now until the next round is chosen; more than 20 min: never. No node but the named ones
// sends a status.
duration until_next_round(run_story& story) {
  const time_point from = story.now;
  const round_number before = story.view().round;
  while (story.view().round == before && story.now < from + 20min)
    story.pass(100ms);
  return story.now - from;
}

}  // namespace

TEST_CASE("a stop names its grace, why, and the round, and leaves the cause to the report") {
  trio_in_its_second story;
  story.fail(*story.b, 3);
  for (const fake_node* const who : {story.a, story.b, story.c}) {
    CHECK(who->wanted.phase == desired_phase::stop);
    CHECK(who->wanted.round == 1);
    CHECK(who->wanted.grace == 5s);
    CHECK(who->wanted.text == "b: rank 2 (local rank 0) exited with code 3");
    CHECK_FALSE(who->wanted.root_cause);
    CHECK_FALSE(who->wanted.is_unreported);
  }
}

TEST_CASE("a round has stopped when every member has, and not before") {
  trio_in_its_second story;
  story.fail(*story.b, 3);
  story.say(*story.a, member_phase::stopped);
  story.say(*story.a, member_phase::stopped);
  story.say(*story.b, member_phase::stopping);
  story.say(*story.b, member_phase::stopped);
  CHECK(story.view().phase == run_phase::stopping);
  for (const member_phase still : {member_phase::running, member_phase::starting,
                                   member_phase::assigned, member_phase::failed}) {
    story.say(*story.c, still);
    CHECK(story.view().phase == run_phase::stopping);
  }
  story.say(*story.c, member_phase::stopped);
  CHECK(story.view().round == 2);
}

TEST_CASE("a member that had succeeded has nothing to stop once it has read the stop") {
  trio_in_its_second story(nodes_of(3, 3));
  story.say(*story.c, member_phase::succeeded);
  story.fail(*story.b, 3);
  story.say(*story.a, member_phase::stopped);
  story.say(*story.b, member_phase::stopped);
  story.c->wanted.seq = 0;  // not read yet
  story.say(*story.c);
  CHECK(story.view().phase == run_phase::stopping);
  story.c->state.desired_seq = story.a->state.desired_seq;
  story.say(*story.c);
  CHECK(story.view().round == 2);
}

TEST_CASE("a member that never got its assignment has nothing to stop") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  fake_node& b = story.joined("b", nodes_of(2, 2));
  run_story::obey(a);
  a.state.service_port = 4001;
  story.say(a, member_phase::preparing);
  const std::uint64_t before = b.state.desired_seq;
  story.fail(a, 1);
  story.say(a, member_phase::stopped);
  b.state.instance = story.view().instance;
  b.state.desired_seq = before;
  story.say(b);
  CHECK(story.view().phase == run_phase::stopping);
  b.state.desired_seq = b.wanted.seq;
  story.say(b);
  CHECK(story.view().round == 2);
}

TEST_CASE(
    "a member that stopped before it read the stop has not let go: a lease may depend on it") {
  trio_in_its_second story;
  story.disconnect(*story.c);
  story.pass(2s);
  REQUIRE(story.view().phase == run_phase::stopping);
  for (fake_node* const who : {story.a, story.b}) {
    who->state.phase = member_phase::stopped;
    story.say(*who);
  }
  // a and b have stopped on their own. No member has acknowledged the stop, so either of them may
  // still renew c's lease.
  CHECK(story.why().find("no node of it can be reached") != std::string::npos);
  story.pass(60s);
  CHECK(story.view().round == 1);
  story.say(*story.a, member_phase::stopped);  // and now it has read it
  CHECK(until_next_round(story) <= 9s);
}

TEST_CASE("acknowledging counts once, from the first time") {
  trio_in_its_second story;
  story.disconnect(*story.c);
  story.pass(2s);
  story.say(*story.b, member_phase::stopping);
  story.say(*story.b, member_phase::stopped);
  story.say(*story.a, member_phase::stopping);
  story.pass(5s);
  story.say(*story.a, member_phase::stopping);
  story.say(*story.a, member_phase::stopped);
  const duration rest = until_next_round(story);
  CHECK(rest >= 3s);
  CHECK(rest <= 3600ms);
}

TEST_CASE("what a stop waited for says nothing about the next stop") {
  trio_in_its_second story;
  story.fail(*story.b, 3);
  story.stop_all();
  story.start_round();
  REQUIRE(story.view().round == 2);
  story.pass(20s);
  for (fake_node* const who : {story.a, story.b, story.c})
    story.disconnect(*who);
  story.pass(2s);
  story.joined("d", nodes_of(1, 3));
  CHECK(until_next_round(story) >= 9min);
}

TEST_CASE("a member that comes back is reachable again, and is counted so") {
  trio_in_its_second story;
  story.disconnect(*story.b);
  story.disconnect(*story.c);
  story.pass(2s);
  story.say(*story.a, member_phase::stopped);
  story.connect(*story.b);
  story.connect(*story.b);
  CHECK(story.why().find("waiting for b") != std::string::npos);
  story.say(*story.b, member_phase::stopped);
  CHECK(story.why().find("c cannot be reached") != std::string::npos);
  story.connect(*story.c);
  story.say(*story.c, member_phase::stopped);
  story.pass(600ms);
  CHECK(story.view().round == 2);
  CHECK(story.view().members.size() == 3);
}

TEST_CASE("a member that comes back is fenced from when it was heard last, if it goes again") {
  trio_in_its_second story;
  story.disconnect(*story.c);
  story.pass(2s);
  story.say(*story.a, member_phase::stopped);
  story.say(*story.b, member_phase::stopped);
  story.pass(5s);
  story.connect(*story.c);
  const time_point heard = story.now;
  story.disconnect(*story.c);
  story.pass(2s);
  until_next_round(story);
  CHECK(story.now - heard >= 8160ms);
  CHECK(story.now - heard <= 8700ms);
}

TEST_CASE("a member that had succeeded lets go when it reports that it has read the stop") {
  trio_in_its_second story;
  story.say(*story.a, member_phase::succeeded);
  story.say(*story.b, member_phase::succeeded);
  story.disconnect(*story.c);
  story.pass(2s);
  REQUIRE(story.view().phase == run_phase::stopping);
  for (fake_node* const who : {story.a, story.b})
    story.say(*who, member_phase::succeeded);
  CHECK(until_next_round(story) <= 9s);
}

TEST_CASE("a goodbye while the round stops is as good as having stopped") {
  trio_in_its_second story;
  story.fail(*story.a, 1);
  story.say(*story.a, member_phase::stopped);
  story.say(*story.b, member_phase::stopped);
  story.goodbye(*story.c);
  story.pass(600ms);
  CHECK(story.view().round == 2);
}

TEST_CASE("a loss after the stop is none that the stop was for") {
  trio_in_its_second story(nodes_of(1, 3, 0));
  story.fail(*story.a, 5);
  SECTION("one that has spoken since") {
    story.say(*story.c, member_phase::stopping);
    story.guardian(*story.c);
    story.stop_all();
    CHECK(story.view().exit_code == 5);
  }
  SECTION("one that was draining") {
    story.c->state.draining = true;
    story.c->state.signal = SIGTERM;
    story.say(*story.c);
    story.guardian(*story.c);
    story.stop_all();
    CHECK(story.view().exit_code == 5);
  }
  SECTION("one whose last word began the stop: its worker was the first of it to go") {
    story.guardian(*story.a);
    story.stop_all();
    story.pass(600ms);
    CHECK(story.view().node_losses == 1);
    CHECK(story.view().round == 2);
  }
  SECTION("one that was silent since before it: that was the cause") {
    story.guardian(*story.c);
    story.stop_all();
    story.pass(600ms);
    CHECK(story.view().node_losses == 1);
    CHECK(story.view().round == 2);
  }
}

TEST_CASE("a lost node is a cause as old as its silence") {
  trio_in_its_second story(nodes_of(3, 3));
  story.pass(10100ms, {story.c});
  story.guardian(*story.c);
  story.stop_all();
  REQUIRE(story.view().root_cause);
  const cause why = *story.view().root_cause;
  CHECK(why.kind == cause_class::node_lost);
  CHECK(why.age >= 10s);
  CHECK(why.age <= 11500ms);
  CHECK(why.group_rank == 2);
  CHECK(why.round == 1);
  CHECK(why.node == "c");
}

TEST_CASE("a lost node is said to have been silent, or not to have come back") {
  trio_in_its_second story(nodes_of(3, 3));
  SECTION("silent") {
    story.pass(10100ms, {story.c});
    CHECK(story.a->wanted.text == "c was lost: silent for 10 s");
  }
  SECTION("not back") {
    story.disconnect(*story.c);
    story.pass(2s);
    CHECK(story.a->wanted.text == "c was lost: connection lost, not back within 2 s");
  }
}

TEST_CASE("the root cause is that of the earliest loss") {
  trio_in_its_second story(nodes_of(3, 3));
  story.pass(500ms);
  story.now += 9s;
  story.say(*story.a);
  story.say(*story.c);
  story.now += 900ms;
  story.guardian(*story.c);
  story.pass(200ms, {story.b});
  REQUIRE(story.view().phase == run_phase::stopping);
  story.pass(2s, {story.b});
  story.stop_all();
  until_next_round(story);
  REQUIRE(story.view().root_cause);
  CHECK(story.view().root_cause->node == "b");
}

TEST_CASE("a node whose workers cannot be killed is a candidate again once they have ended") {
  run_settings settings = nodes_of(1, 2);
  settings.timing.last_call_timeout = 1s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  story.start_round();
  story.fail(b, 1);
  b.state.unkillable = 1;
  story.stop_all();
  story.start_round();
  CHECK(a.wanted.assignment->group_world_size == 1);
  b.state.unkillable = 0;
  story.say(b);
  story.fail(a, 1);
  story.say(b);
  story.stop_all();
  CHECK(a.wanted.group_world_size == 2);
}

TEST_CASE("a member that had succeeded and is lost while the round stops is waited for no longer") {
  trio_in_its_second story;
  story.say(*story.c, member_phase::succeeded);
  story.fail(*story.b, 3);
  story.say(*story.a, member_phase::stopped);
  story.say(*story.b, member_phase::stopped);
  story.disconnect(*story.c);
  CHECK(story.view().phase == run_phase::stopping);
  story.pass(2600ms);
  CHECK(story.view().round == 2);
}

TEST_CASE("a leader that has died for certain has let go of all: its members follow it soon") {
  trio_in_its_second story;
  story.guardian(*story.c);
  story.stop_all();
  story.pass(600ms);
  story.start_round();
  REQUIRE(story.a->wanted.assignment->group_world_size == 2);
  story.disconnect(*story.b);
  story.guardian(*story.a);
  story.joined("d", nodes_of(1, 3));
  const duration waited = until_next_round(story);
  CHECK(waited >= 8s);
  CHECK(waited <= 45s);
}
