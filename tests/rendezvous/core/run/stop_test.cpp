// Nodes that stop late, or never, and rows of losses.
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"

#include <algorithm>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

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
          return text.starts_with("b still stops its workers 60 s after");
        }) == 1);
  story.start_round();
  // Once it is done it is like any other.
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
  story.pass(100s);  // nobody acknowledges: the round stays in its stop
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
  // What comes next is asked for: nobody looks by chance.
  const auto next = story.machine().next_deadline();
  REQUIRE(next);
  CHECK(*next == stop_told + 60s);
  story.pass(1ms);
  CHECK(story.view().phase == run_phase::stopping);
  const std::uint64_t answered = b.answered;
  story.say(b);
  CHECK(b.answered == answered);
  SECTION("for good: the round goes on after its fence, and nobody vouches for it after that") {
    story.connect(b);
    CHECK(b.wanted.phase == desired_phase::stop);
    CHECK(b.answered == answered);
    // Its last answer was half a second before.
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

// It would be chosen, waited for and thrown out again for as long as there are restarts.
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

TEST_CASE("losses that were settled are no part of the next row of losses") {
  run_settings settings = nodes_of(1, 30);
  settings.timing.last_call_timeout = 1s;
  run_story story;
  std::vector<fake_node*> rack;
  for (int index = 0; index < 12; ++index)
    rack.push_back(&story.joined("n" + std::to_string(index), settings));
  story.pass(1s);
  story.start_round();
  // As it is with real ones: the connection of a process that dies ends at once.
  const bool breaks_first = GENERATE(false, true);
  const auto lose = [&](std::size_t first, std::size_t last) {
    for (std::size_t index = first; index < last; ++index) {
      if (breaks_first) story.disconnect(*rack[index]);
      story.guardian(*rack[index]);
      story.stop_all();
      CHECK(story.view().phase != run_phase::preparing);
      story.pass(400ms);
    }
    story.pass(200ms);
  };
  lose(1, 4);  // the second and third while the first is being settled
  REQUIRE(story.view().round == 2);
  story.start_round();
  story.pass(60s);
  lose(4, 9);
  CHECK(story.view().round == 3);
  CHECK(story.view().node_losses == 2);
}

TEST_CASE("a stop that is overdue is looked at then, however seldom anybody speaks") {
  run_settings settings = nodes_of(1, 2);
  settings.timing.drain_grace = 30300ms;  // so that it is no moment at which silence is judged
  pair_story story(settings);
  story.fail(*story.a, 1);
  story.say(*story.a, member_phase::stopped);
  story.say(*story.b, member_phase::stopping);
  const time_point told = story.now;
  story.pass(60200ms);
  const auto next = story.machine().next_deadline();
  REQUIRE(next);
  CHECK(*next == told + 60300ms);
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
