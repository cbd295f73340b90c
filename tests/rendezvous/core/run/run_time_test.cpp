// Rule 7: what the next choice waits for after losses and drains. And when a run has to be stepped
// next, in every phase, and that a loop that was late moves that moment.
#include "rendezvous/core/run/gather.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"
#include "tests/support/run_story.hpp"
#include "tests/support/time_origin.hpp"
#include "tests/support/trio_story.hpp"

#include <algorithm>
#include <csignal>
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
  wait.wait_for_messages(2, machine_origin + 2s);
  CHECK(wait.is_for_messages());
  CHECK_FALSE(wait.is_over(machine_origin));
  CHECK(wait.is_over(machine_origin + 2s));
  wait.end_silence_of_one();
  CHECK_FALSE(wait.is_over(machine_origin));
  wait.end_silence_of_one();
  CHECK(wait.is_over(machine_origin));
}

TEST_CASE("the settle time after losses ends the wait for silent nodes") {
  settle_timer wait;
  wait.wait_for_messages(1, machine_origin + 2s);
  wait.end_silence_of_one();
  wait.add_loss(machine_origin);
  wait.wait_for_quiet(timers{});
  CHECK_FALSE(wait.is_for_messages());
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

// Every wait of a run, and a loop that was late.

namespace {

// Everything else happens long before a silent node would be lost.
run_settings patient(std::uint32_t nodes_min, std::uint32_t nodes_max) {
  run_settings settings = nodes_of(nodes_min, nodes_max);
  settings.timing.node_timeout = 2h;
  settings.timing.reconnect_grace = 2h;
  settings.timing.isolation_limit = 100s;
  settings.timing.orphan_limit = 50min;
  return settings;
}

// What is due next, and again after the loop was late by 7 s.
void check_due(run_story& story, time_point when) {
  REQUIRE(story.machine().next_deadline());
  CHECK(*story.machine().next_deadline() == when);
  story.step(core::loop_was_late{7s});
  REQUIRE(story.machine().next_deadline());
  CHECK(*story.machine().next_deadline() == when + 7s);
}

// a and b run round 1; both have sent a status since.
struct patient_story : run_story {
  explicit patient_story(run_settings settings = patient(1, 2)) {
    a = &joined("a", settings);
    b = &joined("b", settings);
    start_round();
    now += 1s;
  }
  fake_node* a = nullptr;
  fake_node* b = nullptr;
};

}  // namespace

TEST_CASE("due while a run gathers: the last call, or join_timeout") {
  run_story story;
  CHECK_FALSE(story.machine().next_deadline());
  const time_point began = story.now;
  story.joined("a", patient(2, 3));
  story.now += 1s;
  SECTION("too few are here") {
    check_due(story, began + 600s);
  }
  SECTION("enough are here") {
    story.joined("b", patient(2, 3));
    check_due(story, story.now + 30s);
  }
}

TEST_CASE("due while a daemon waits for the nodes of an earlier one: the end of that") {
  run_story story(restarted());
  CHECK_FALSE(story.machine().next_deadline());
  const fake_node& only = story.joined("a", patient(1, 1));
  check_due(story, run_story::origin + 10s);
  story.now = run_story::origin + 17s - 1ms;
  story.step(core::time_passed{});
  CHECK(only.wanted.phase == desired_phase::wait);
  story.now += 1ms;
  story.step(core::time_passed{});
  CHECK(only.wanted.phase == desired_phase::prepare);
}

TEST_CASE("due while a round is prepared and started: start_timeout of each, and then nothing") {
  run_story story;
  fake_node& a = story.joined("a", patient(2, 2));
  fake_node& b = story.joined("b", patient(2, 2));
  CHECK(*story.machine().next_deadline() == story.now + 60s);
  story.now += 2s;
  run_story::obey(a);
  a.state.service_port = 29500;
  story.say(a, member_phase::preparing);
  const time_point assigned = story.now;
  REQUIRE(story.view().phase == run_phase::running);
  CHECK(*story.machine().next_deadline() == assigned + 60s);
  story.say(a, member_phase::running);
  check_due(story, assigned + 60s);
  story.say(b, member_phase::running);
  CHECK(*story.machine().next_deadline() > assigned + 1h);
}

TEST_CASE("due while a node cannot be reached: when its workers must be gone") {
  run_settings settings = patient(1, 2);
  settings.timing.reconnect_grace = 2s;
  patient_story story(settings);
  const duration limit = settings.timing.isolation_limit;
  const duration margin = 250ms;  // late_kill in run/run_state.hpp
  SECTION("after the leader's word: the isolation limit, 2 % for clocks, and a margin") {
    story.disconnect(*story.b);
    story.pass(2s);
    REQUIRE(story.view().phase == run_phase::stopping);
    story.now += 1s;
    story.say(*story.a, member_phase::stopped);
    check_due(story, story.now + limit * 102 / 100 + margin);
  }
  SECTION("after any other's word, where it is the leader that is lost") {
    story.disconnect(*story.a);
    story.pass(2s);
    story.now += 1s;
    story.say(*story.b, member_phase::stopped);
    check_due(story, story.now + limit * 102 / 100 + margin);
  }
  SECTION("counted from the last word of those that cannot be reached, where that is later") {
    story.say(*story.b, member_phase::running);
    story.fail(*story.a, 1);
    story.say(*story.a, member_phase::stopped);
    story.now += 5s;
    story.say(*story.b, member_phase::running);
    const time_point last = story.now;
    story.disconnect(*story.b);
    story.pass(2s);
    check_due(story, last + limit * 102 / 100 + margin);
  }
  SECTION("if none has said anything: the orphan limit, from the stop on") {
    story.disconnect(*story.a);
    story.disconnect(*story.b);
    story.pass(2s);
    REQUIRE(story.view().phase == run_phase::stopping);
    check_due(story, story.now + settings.timing.orphan_limit);
  }
}

TEST_CASE("due while a run settles: quiet after the last loss, whenever that comes") {
  run_settings settings = patient(1, 4);
  settings.timing.settle = 2s;
  settings.timing.settle_max = 5s;
  run_story story;
  std::vector<fake_node*> nodes;
  for (int index = 0; index < 4; ++index)
    nodes.push_back(&story.joined("n" + std::to_string(index), settings));
  story.start_round();
  story.now += 1s;
  const time_point first = story.now;
  story.guardian(*nodes[3]);
  SECTION("while the round still stops") {
    story.now += 1900ms;
    story.guardian(*nodes[2]);
    story.stop_all();
    REQUIRE(story.view().phase == run_phase::settling);
    check_due(story, first + 3900ms);
  }
  SECTION("while it settles") {
    story.stop_all();
    story.now += 1900ms;
    story.guardian(*nodes[2]);
    check_due(story, first + 3900ms);
  }
}

TEST_CASE("a loop that was late between two losses leaves the second its whole quiet") {
  run_settings settings = patient(1, 3);
  settings.timing.settle = 2s;
  settings.timing.settle_max = 5s;
  run_story story;
  std::vector<fake_node*> nodes;
  for (int index = 0; index < 3; ++index)
    nodes.push_back(&story.joined("n" + std::to_string(index), settings));
  story.pass(30s);
  story.start_round();
  story.now += 1s;
  story.guardian(*nodes[2]);
  story.now += 60s;
  story.step(core::loop_was_late{60s});
  story.stop_all();
  REQUIRE(story.view().phase == run_phase::settling);
  CHECK(*story.machine().next_deadline() == story.now + 2s);
}

TEST_CASE("due while a word of the silent is waited for: two heartbeats after the stop") {
  run_settings settings = patient(1, 2);
  settings.spares_max = 1;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  story.start_round();
  story.joined("c", settings);
  story.now += 1s;
  story.fail(a, 1);
  const time_point stopped = story.now;
  story.say(a, member_phase::stopped);
  story.now += 100ms;
  story.guardian(b);
  story.now += 500ms;
  story.step(core::time_passed{});
  REQUIRE(story.view().phase == run_phase::settling);
  CHECK(story.why().find("waiting to hear from nodes that were silent") == 0);
  check_due(story, stopped + 2 * settings.timing.heartbeat_interval);
}

TEST_CASE("a closed run is looked at no more, once everybody has gone") {
  patient_story story;
  story.say(*story.a, member_phase::succeeded);
  story.say(*story.b, member_phase::succeeded);
  REQUIRE(story.view().phase == run_phase::closed);
  story.goodbye(*story.a);
  story.goodbye(*story.b);
  CHECK_FALSE(story.machine().next_deadline());
}

TEST_CASE("a node that was silent for node_timeout is lost then, not earlier; a late loop counts") {
  run_settings settings = nodes_of(1, 2);
  patient_story story(settings);
  const time_point heard = story.now - 1s;
  REQUIRE(story.machine().next_deadline());
  CHECK(*story.machine().next_deadline() == heard + 10s);
  story.say(*story.a);
  story.step(core::loop_was_late{2s});
  const time_point due = heard + 12s;
  while (story.view().phase == run_phase::running && story.now < due + 1min) {
    story.now = *story.machine().next_deadline();
    story.step(core::time_passed{});
  }
  CHECK(story.now == due);
}

TEST_CASE(
    "a connection that ended is waited for as long as reconnect_grace, at most node_timeout") {
  run_settings settings = nodes_of(1, 2);
  duration expected = 2s;
  SECTION("the grace") {}
  SECTION("a grace of a day") {
    settings.timing.reconnect_grace = 24h;
    expected = 10s;
  }
  patient_story story(settings);
  story.now += 3s;
  story.say(*story.a);
  const time_point gone = story.now;
  story.disconnect(*story.b);
  while (story.view().phase == run_phase::running && story.now < gone + 1min) {
    story.now = *story.machine().next_deadline();
    story.step(core::time_passed{});
  }
  CHECK(story.now == gone + expected);
}

TEST_CASE("a loop that was late leaves workers that stop their whole time") {
  pair_story story;
  story.fail(*story.a, 3);
  const time_point told = story.now;
  story.say(*story.a, member_phase::stopped);
  story.now += 30s;
  story.step(core::loop_was_late{30s});
  story.pass(59s);
  story.now = told + 90s - 1ms;
  const auto is_given_up = [&story] {
    story.beat_all();
    story.step(core::time_passed{});
    return std::any_of(story.notes.begin(), story.notes.end(), [](const std::string& each) {
      return each ==
             "b has not begun to stop its workers 60 s after it was told to: it counts as lost, "
             "and its heartbeats are not acknowledged until it does";
    });
  };
  CHECK_FALSE(is_given_up());
  story.now = told + 90s;
  CHECK(is_given_up());
}

TEST_CASE("a loop that was late moves every deadline by that much") {
  trio_story story;
  story.start_round();
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
  trio_story story;
  story.start_round();
  story.now += 11s;
  story.say(*story.a);
  story.say(*story.b);
  story.say(*story.c);
  story.step(core::time_passed{});
  CHECK(story.view().phase == run_phase::running);
}
