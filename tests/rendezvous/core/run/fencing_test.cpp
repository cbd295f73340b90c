#include "tests/support/catch.hpp"
#include "tests/support/trio_story.hpp"

#include <algorithm>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

// Three nodes of which one may be missing; last call is short, as time is not the point.
struct running_trio : trio_story {
  running_trio() { start_round(); }

  void stop_but(const fake_node& silent) {
    for (fake_node* const who : {a, b, c}) {
      if (who == &silent || who->wanted.phase != desired_phase::stop) continue;
      say(*who, member_phase::stopping);
      say(*who, member_phase::stopped);
    }
  }
};

}  // namespace

TEST_CASE("a silent node is lost after node_timeout, its workers after the isolation limit") {
  running_trio story;
  story.pass(9900ms, {story.c});
  CHECK(story.view().phase == run_phase::running);
  story.pass(200ms, {story.c});
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(story.c->connection == 0);
  const time_point stopped = story.now;
  story.stop_but(*story.c);
  CHECK(story.why().find("c cannot be reached: waiting until its workers must be gone") !=
        std::string::npos);
  // 8 s, 2 % for clocks, and 250 ms for a kill that is late.
  story.pass(8400ms);
  CHECK(story.view().phase == run_phase::stopping);
  story.pass(100ms);
  CHECK(story.view().round == 2);
  CHECK(story.now - stopped < 8550ms);
}

TEST_CASE("a lost leader takes two isolation limits: its members hang on its tethers") {
  running_trio story;
  story.disconnect(*story.a);
  story.pass(2s);
  CHECK(story.view().phase == run_phase::stopping);
  story.stop_but(*story.a);
  story.pass(16550ms);
  CHECK(story.view().phase == run_phase::stopping);
  story.pass(100ms);
  CHECK(story.view().round == 2);
  story.start_round();
  CHECK(story.b->wanted.assignment->group_rank == 0);
}

TEST_CASE("a guardian's word or a goodbye is proof of death: nobody waits") {
  running_trio story;
  SECTION("guardian") {
    story.guardian(*story.a);
  }
  SECTION("goodbye") {
    story.goodbye(*story.a);
  }
  CHECK(story.view().phase == run_phase::stopping);
  story.stop_but(*story.a);
  story.pass(600ms);
  CHECK(story.view().round == 2);
}

TEST_CASE("proof that comes while the lost are being waited for ends the wait") {
  running_trio story;
  story.disconnect(*story.c);
  story.pass(2s);
  story.stop_but(*story.c);
  story.pass(1s);
  CHECK(story.view().phase == run_phase::stopping);
  story.guardian(*story.c);
  story.pass(600ms);
  CHECK(story.view().round == 2);
}

TEST_CASE("without a word from any member the next round waits for orphan_limit") {
  running_trio story;
  for (fake_node* const who : {story.a, story.b, story.c})
    story.disconnect(*who);
  story.pass(2s);
  CHECK(story.view().phase == run_phase::stopping);
  // At once, and once: nobody else is left to hear of it.
  CHECK(std::count_if(story.notes.begin(), story.notes.end(), [](const std::string& each) {
          return each.find(
                     "no node of it can be reached, so its workers may still run: a, b, c; "
                     "waiting for one of them to come back, or for 10 min") != std::string::npos;
        }) == 1);
  fake_node& newcomer = story.joined("d", nodes_of(1, 3));
  story.pass(9min);
  CHECK(story.view().round == 1);
  CHECK(story.why().find("no node of it can be reached") != std::string::npos);
  story.pass(62s);
  CHECK(story.view().round == 2);
  CHECK(newcomer.wanted.phase == desired_phase::prepare);
}

TEST_CASE("a node that comes back while the round stops is waited for") {
  running_trio story;
  story.disconnect(*story.c);
  story.pass(2s);
  story.stop_but(*story.c);
  story.connect(*story.c);
  CHECK(story.c->wanted.phase == desired_phase::stop);
  story.pass(50s);
  CHECK(story.view().round == 1);
  story.stop_all();
  story.pass(600ms);
  CHECK(story.view().round == 2);
}

TEST_CASE("a node that comes back in an older round is fenced and joins anew") {
  running_trio story;
  story.pass(10s, {story.c});
  story.stop_but(*story.c);
  story.pass(9s);
  story.start_round();
  REQUIRE(story.view().round == 2);
  story.connect(*story.c);
  CHECK(story.c->wanted.phase == desired_phase::fence);
  CHECK(story.c->wanted.round >= 2);
  story.say(*story.c);
  CHECK(story.c->wanted.phase == desired_phase::fence);
  story.rejoin(*story.c);
  CHECK(story.c->wanted.phase == desired_phase::wait);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("a node that is to be fenced is not answered: the answer would vouch for it") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 2));
  fake_node& b = story.joined("b", nodes_of(1, 2));
  story.start_round();
  story.guardian(b);
  story.stop_all();
  story.pass(600ms);
  story.start_round();
  REQUIRE(a.wanted.round == 2);
  // Its machine stood still with the assignment of round 1 unread.
  fake_node& late = b;
  late.state.phase = member_phase::assigned;
  late.answered_before_wanted = false;
  late.wanted = {};
  story.connect(late);
  CHECK(late.wanted.phase == desired_phase::fence);
  CHECK(late.answered < late.state.seq);
  CHECK_FALSE(late.answered_before_wanted);
  late.state.phase = member_phase::stopping;
  story.say(late);
  CHECK(late.answered < late.state.seq);
  story.rejoin(late);
  CHECK(late.answered == late.state.seq);
}

TEST_CASE("an agent of another instance is fenced") {
  running_trio story;
  fake_node& stray = story.node("stray", nodes_of(1, 3));
  stray.greeting.settings = story.a->greeting.settings;
  stray.state.instance = 4711;
  stray.state.round = 9;
  stray.state.phase = member_phase::running;
  story.connect(stray);
  CHECK(stray.wanted.phase == desired_phase::fence);
}

TEST_CASE("a session that connects again replaces its old connection") {
  running_trio story;
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
  running_trio story;
  story.disconnect(*story.b);
  story.pass(1900ms);
  story.connect(*story.b);
  story.pass(5s);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("a loop that was late moves every deadline by that much") {
  running_trio story;
  story.now += 30s;
  story.step(core::loop_was_late{30s});
  story.step(core::time_passed{});
  CHECK(story.view().phase == run_phase::running);
  story.pass(9s, {story.a, story.b, story.c});
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("a loss right after the loop was late is no cause from the future") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  story.step(core::loop_was_late{5s});
  story.guardian(b);
  CHECK(a.wanted.phase == desired_phase::stop);
  story.stop_all();
  REQUIRE(story.view().root_cause);
  CHECK(story.view().root_cause->age >= duration::zero());
}

TEST_CASE("words that wait in a socket count: only time_passed declares a loss") {
  running_trio story;
  story.now += 11s;
  story.say(*story.a);
  story.say(*story.b);
  story.say(*story.c);
  story.step(core::time_passed{});
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("a node that stopped its workers by itself ends the round as a node loss") {
  running_trio story;
  story.b->state.phase = member_phase::stopped;
  story.say(*story.b);
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(story.a->wanted.text == "b was lost: it stopped its workers by itself");
}

TEST_CASE("a member whose death was told and that came back is waited for as any other") {
  running_trio story;
  story.guardian(*story.b);
  story.connect(*story.b);
  story.stop_all();
  story.pass(600ms);
  story.start_round();
  REQUIRE(story.b->wanted.phase == desired_phase::run);
  story.fail(*story.a, 3);
  for (fake_node* const who : {story.a, story.c})
    story.say(*who, member_phase::stopped);
  CHECK(story.view().phase == run_phase::stopping);
  story.say(*story.b, member_phase::stopped);
  CHECK(story.view().round == 3);
}

TEST_CASE("a member that cannot be reached is counted once, though it is lost twice") {
  running_trio story;
  story.fail(*story.a, 1);
  story.say(*story.a, member_phase::stopped);
  story.disconnect(*story.c);
  // b speaks, and does nothing: it is taken for lost.
  story.pass(60s);
  story.connect(*story.c);
  story.say(*story.c, member_phase::stopping);
  story.disconnect(*story.b);
  story.pass(30s);
  CHECK(story.view().round == 1);
  story.say(*story.c, member_phase::stopped);
  story.pass(1s);
  CHECK(story.view().round == 2);
}
