// Rule 7: what the next choice waits for after losses and drains.
#include "rendezvous/core/run/gather.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"
#include "tests/support/time_origin.hpp"

#include <vector>

using ddprun::tests::machine_origin;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

// `settle_timer` without a run.
TEST_CASE("each loss restarts the settle time, up to a limit from the first") {
  timers timing;
  timing.settle = 500ms;
  timing.settle_max = 2s;
  settle_timer wait;
  CHECK_FALSE(wait.wants_quiet());
  wait.add_loss(machine_origin);
  wait.wait_for_quiet(timing);
  CHECK(wait.until(machine_origin) == machine_origin + 500ms);
  wait.add_loss(machine_origin + 400ms);
  wait.wait_for_quiet(timing);
  CHECK(wait.until(machine_origin) == machine_origin + 900ms);
  wait.add_loss(machine_origin + 1900ms);
  wait.wait_for_quiet(timing);
  CHECK(wait.until(machine_origin) == machine_origin + 2s);
  CHECK_FALSE(wait.is_over(machine_origin + 1999ms));
  CHECK(wait.is_over(machine_origin + 2s));

  wait.forget_losses();
  CHECK_FALSE(wait.wants_quiet());
  wait.add_loss(machine_origin + 10s);
  wait.wait_for_quiet(timing);
  CHECK(wait.until(machine_origin) == machine_origin + 10s + 500ms);
}

TEST_CASE("the wait for silent nodes ends when all of them have been heard, or at its limit") {
  settle_timer wait;
  wait.wait_for_words(2, machine_origin + 2s);
  CHECK(wait.is_for_words());
  CHECK_FALSE(wait.is_over(machine_origin));
  CHECK(wait.is_over(machine_origin + 2s));
  wait.end_silence_of_one();
  CHECK_FALSE(wait.is_over(machine_origin));
  wait.end_silence_of_one();
  CHECK(wait.is_over(machine_origin));
}

TEST_CASE("the settle time after losses ends the wait for silent nodes") {
  settle_timer wait;
  wait.wait_for_words(1, machine_origin + 2s);
  wait.end_silence_of_one();
  wait.add_loss(machine_origin);
  wait.wait_for_quiet(timers{});
  CHECK_FALSE(wait.is_for_words());
  CHECK_FALSE(wait.is_over(machine_origin));
}

TEST_CASE("a pause is not cut short by losses or messages") {
  settle_timer wait;
  wait.pause_until(machine_origin + 4s);
  wait.wait_for_pause(machine_origin);
  CHECK_FALSE(wait.is_over(machine_origin));
  CHECK(wait.until(machine_origin) == machine_origin + 4s);
  CHECK_FALSE(wait.is_quiet_in_pause(machine_origin));
  wait.add_loss(machine_origin + 1s);
  wait.wait_for_quiet(timers{});
  CHECK(wait.until(machine_origin + 1s) == machine_origin + 1500ms);
  CHECK_FALSE(wait.is_quiet_in_pause(machine_origin + 1s));
  CHECK(wait.is_quiet_in_pause(machine_origin + 1500ms));
  CHECK_FALSE(wait.is_over(machine_origin + 1500ms));
  wait.forget_losses();
  CHECK_FALSE(wait.is_quiet_in_pause(machine_origin + 2s));
  CHECK(wait.until(machine_origin + 2s) == machine_origin + 4s);
  CHECK_FALSE(wait.is_over(machine_origin + 3999ms));
  CHECK(wait.is_over(machine_origin + 4s));
  wait.pause_until(machine_origin + 9s);
  wait.end_pause();
  CHECK(wait.is_over(machine_origin + 5s));
}

TEST_CASE("a settle time that begins late outlasts the pause") {
  settle_timer wait;
  wait.pause_until(machine_origin + 1s);
  wait.wait_for_pause(machine_origin);
  wait.add_loss(machine_origin + 900ms);
  wait.wait_for_quiet(timers{});
  CHECK_FALSE(wait.is_over(machine_origin + 1s));
  CHECK(wait.until(machine_origin + 1s) == machine_origin + 1400ms);
  CHECK(wait.is_over(machine_origin + 1400ms));
}

// In a run.
TEST_CASE("after a plain worker failure there is no settle time") {
  pair_story story;
  const time_point failed_at = story.now;
  story.fail(*story.b, 3);
  story.stop_all();
  story.start_round();
  CHECK(story.now == failed_at);
  CHECK(story.a->state.phase == member_phase::running);
}

TEST_CASE("a spare that is silent since before the stop is waited for, but not for long") {
  run_settings settings = nodes_of(2, 2);
  settings.spares_max = 1;
  run_story story;
  story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  story.start_round();
  fake_node& spare = story.joined("d", settings);
  story.pass(1ms);
  story.guardian(b);
  story.stop_all();
  story.pass(600ms, {&spare});
  CHECK(story.view().phase == run_phase::settling);
  story.say(spare);
  CHECK(story.view().phase == run_phase::preparing);
}

TEST_CASE("a spare that left long ago causes no settle time") {
  run_settings settings = nodes_of(2, 2);
  settings.spares_max = 1;
  pair_story story(settings);
  fake_node& spare = story.joined("c", settings);
  story.disconnect(spare);
  story.pass(3s);
  story.fail(*story.b, 3);
  story.stop_all();
  CHECK(story.view().round == 2);
}

TEST_CASE("the loss of a node that could not be chosen does not extend the settle time") {
  pair_story story(nodes_of(1, 2));
  fake_node& stray = story.node("stray", nodes_of(1, 2));
  stray.state.instance = 4711;
  stray.state.round = 9;
  stray.state.phase = member_phase::running;
  story.connect(stray);
  REQUIRE(stray.wanted.phase == desired_phase::fence);
  story.guardian(*story.b);
  story.stop_all();
  REQUIRE(story.view().phase == run_phase::settling);
  const time_point lost = story.now;
  story.now += 300ms;
  story.guardian(stray);
  CHECK(*story.machine().next_deadline() == lost + 500ms);
}

TEST_CASE("with settle=0 the next round is chosen at once after a loss") {
  run_settings settings = nodes_of(1, 2);
  settings.timing.settle = duration::zero();
  pair_story story(settings);
  story.say(*story.a);
  story.guardian(*story.b);
  story.stop_all();
  CHECK(story.view().round == 2);
}

TEST_CASE("losses that were settled do not count towards the next settle_max") {
  run_settings settings = nodes_of(1, 30);
  settings.timing.last_call_timeout = 1s;
  run_story story;
  std::vector<fake_node*> rack;
  for (int index = 0; index < 12; ++index)
    rack.push_back(&story.joined("n" + std::to_string(index), settings));
  story.pass(1s);
  story.start_round();
  // As in reality, the connection of a process that dies ends at once.
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
