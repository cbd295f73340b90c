// When a run has to be stepped next, in every phase, and that a loop that was late moves that
// moment.
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"
#include "tests/support/trio_story.hpp"

#include <algorithm>
#include <csignal>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

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

TEST_CASE("due while somebody cannot be reached: when its workers must be gone") {
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
  SECTION("counted from the last word of those who cannot be reached, where that is later") {
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
  SECTION("after nobody's word: the orphan limit, from the stop on") {
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

TEST_CASE("a loop that was late leaves those who stop their whole time") {
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
      return each.starts_with("b has not begun to stop its workers");
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
