// Workers of earlier instances that may still be alive.
#include "rendezvous/core/run/instances.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"
#include "tests/support/time_origin.hpp"

#include <csignal>

using ddprun::tests::machine_origin;
using ddprun::tests::origin;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

// Workers of a closed instance that may still be alive, and the first round of the next instance.
namespace {

// Two nodes run; the second can no longer be reached when a person stops the run.
struct stopped_story : run_story {
  explicit stopped_story() {
    a = &joined("a", nodes_of(1, 2));
    b = &joined("b", nodes_of(1, 2));
    start_round();
    first = view().instance;
    disconnect(*b);
    pass(1s);
    ask_to_leave(*a, SIGINT);
    pass(1s);  // b is lost in the meantime; the close does not wait for it
    stop_all();
    REQUIRE(a->wanted.phase == desired_phase::close);
    REQUIRE(a->wanted.exit_code == 130);
    goodbye(*a);
  }
  // b is cut off at that moment and no sooner, although both have sent a status just before.
  void check_cut_off_at(time_point due) {
    now = due - 1ms;
    beat_all();
    step(core::time_passed{});
    CHECK(b->connection != 0);
    now = due;
    step(core::time_passed{});
    CHECK(b->connection == 0);
  }
  fake_node* a = nullptr;
  fake_node* b = nullptr;
  instance_id first = 0;
};

}  // namespace

TEST_CASE("the instance after an operator's stop waits for a node that could not be reached") {
  stopped_story story;
  fake_node& next = story.joined("c", nodes_of(1, 1));
  CHECK(story.view().instance != story.first);
  CHECK(next.wanted.phase == desired_phase::wait);
  CHECK(story.why().find("from an earlier start of this run must have ended") != std::string::npos);
  SECTION("until its isolation limit has passed") {
    story.pass(7s);
    CHECK(next.wanted.phase == desired_phase::wait);
    story.pass(2s);
    CHECK(next.wanted.phase == desired_phase::prepare);
  }
  SECTION("until its guardian says that it is dead") {
    story.guardian(*story.b);
    CHECK(next.wanted.phase == desired_phase::prepare);
  }
  SECTION("until it has come back and ended its workers") {
    story.connect(*story.b);
    CHECK(story.b->wanted.phase == desired_phase::close);
    story.pass(20s);
    CHECK(next.wanted.phase == desired_phase::wait);
    CHECK(next.wanted.text.find("the workers of b from an earlier start") != std::string::npos);
    story.goodbye(*story.b);
    CHECK(next.wanted.phase == desired_phase::prepare);
  }
  SECTION("until it has come back, and was lost again") {
    story.connect(*story.b);
    story.disconnect(*story.b);
    story.pass(16s);
    CHECK(next.wanted.phase == desired_phase::wait);
    story.pass(1s);
    CHECK(next.wanted.phase == desired_phase::prepare);
  }
  SECTION("not for one that comes back, answers, and does not end") {
    story.connect(*story.b);
    story.pass(59s);
    CHECK(next.wanted.phase == desired_phase::wait);
    story.pass(2s);
    CHECK(story.b->connection == 0);
    CHECK(next.wanted.phase == desired_phase::wait);  // it isolates itself now
    story.pass(17s);
    CHECK(next.wanted.phase == desired_phase::prepare);
  }
  SECTION("for one that comes back, answers, and does not end: as long as a stop may take") {
    story.connect(*story.b);
    const time_point told = story.now;
    story.pass(59s);
    CHECK(*story.machine().next_deadline() <= told + 60s);
    story.check_cut_off_at(told + 60s);
  }
  SECTION("and as much longer as the loop was late") {
    story.connect(*story.b);
    const time_point told = story.now;
    story.now += 30s;
    story.step(core::loop_was_late{30s});
    story.check_cut_off_at(told + 90s);
  }
}

TEST_CASE("where no node could be reached, an operator's stop leaves them the orphan limit") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 1));
  story.start_round();
  story.disconnect(a);
  story.pass(3s);
  CHECK(story.view().phase == run_phase::stopping);
  story.step(core::operator_stop_requested{"maintenance"});
  CHECK(story.view().phase == run_phase::closed);
  fake_node& next = story.joined("b", nodes_of(1, 1));
  story.pass(595s);
  CHECK(next.wanted.phase == desired_phase::wait);
  story.pass(10s);
  CHECK(next.wanted.phase == desired_phase::prepare);
}

TEST_CASE("a run that ended with all nodes present begins again at once") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 1));
  story.start_round();
  story.say(a, member_phase::succeeded);
  story.goodbye(a);
  CHECK(story.joined("a", nodes_of(1, 1)).wanted.phase == desired_phase::prepare);
}

TEST_CASE("the wait for older workers does not count towards join_timeout") {
  run_settings settings = nodes_of(1, 1);
  settings.timing.join_timeout = 20s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  story.start_round();
  story.disconnect(a);
  story.pass(3s);
  story.step(core::operator_stop_requested{"maintenance"});
  fake_node& next = story.joined("b", settings);
  story.pass(500s);
  CHECK(next.wanted.phase == desired_phase::wait);
}

TEST_CASE("the orphan limit counts from the last message of any member that cannot be reached") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  // The stop is issued, but is not acknowledged: both send statuses for five more seconds, and
  // disconnect.
  story.fail(a, 3);
  story.pass(5s);
  story.disconnect(a);
  story.disconnect(b);
  story.pass(598s);
  CHECK(story.view().phase == run_phase::stopping);
  fake_node& c = story.joined("c", nodes_of(2, 2));
  fake_node& d = story.joined("d", nodes_of(2, 2));
  CHECK(c.wanted.phase == desired_phase::wait);
  story.pass(10s);
  CHECK(story.view().phase == run_phase::preparing);
  CHECK((c.wanted.phase == desired_phase::prepare || d.wanted.phase == desired_phase::prepare));
}

// The operator's stop crossed the end of the training, so nothing was left to stop.
TEST_CASE("a run that had succeeded at every node when it was stopped ends with 0") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  SECTION("one is away, the other one stops after its success") {
    story.disconnect(b);
    b.state.phase = member_phase::succeeded;
    story.step(core::operator_stop_requested{"maintenance"});
    story.obey(a);
    a.state.succeeded = true;
    story.say(a, member_phase::stopped);
    story.pass(3s);
    CHECK(story.view().exit_code == 143);
    story.connect(b);
  }
  SECTION("both are away") {
    for (fake_node* const who : {&a, &b}) {
      story.disconnect(*who);
      who->state.phase = member_phase::succeeded;
    }
    story.step(core::operator_stop_requested{"maintenance"});
    story.pass(3s);
    CHECK(story.view().exit_code == 143);
    story.connect(a);
    CHECK(a.wanted.exit_code == 143);
    story.connect(b);
    CHECK(story.why().find("every worker had succeeded when this run was closed") !=
          std::string::npos);
  }
  CHECK(b.wanted.phase == desired_phase::close);
  CHECK(b.wanted.exit_code == 0);
  CHECK(story.view().exit_code == 0);
  CHECK_FALSE(b.wanted.root_cause);
}

TEST_CASE("a round that had succeeded at every node when it was given up is not run again") {
  run_story story;
  run_settings settings = nodes_of(2, 2);
  settings.timing.orphan_limit = 30s;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  story.start_round();
  story.disconnect(a);
  story.disconnect(b);
  story.pass(60s);
  REQUIRE(story.view().phase == run_phase::gathering);
  a.state.phase = member_phase::succeeded;
  story.connect(a);
  CHECK(a.wanted.phase == desired_phase::fence);
  story.rejoin(a);
  CHECK(a.wanted.phase == desired_phase::wait);
  SECTION("the last to come says so") {
    b.state.phase = member_phase::succeeded;
    story.connect(b);
    CHECK(story.view().exit_code == 0);
    for (const fake_node* const who : {&a, &b}) {
      CHECK(who->wanted.phase == desired_phase::close);
      CHECK(who->wanted.exit_code == 0);
      CHECK(who->wanted.text.starts_with("every worker had succeeded when round 1 was given up"));
    }
  }
  SECTION("the last to come had not got so far") {
    b.state.phase = member_phase::stopped;
    story.connect(b);
    CHECK(story.view().phase == run_phase::preparing);
  }
  SECTION("another round has begun meanwhile") {
    story.joined("c", settings);
    REQUIRE(story.view().phase == run_phase::preparing);
    b.state.phase = member_phase::succeeded;
    story.connect(b);
    CHECK(b.wanted.phase == desired_phase::fence);
  }
}

TEST_CASE("a run of which one node had succeeded, when it was stopped, was stopped") {
  run_story story;
  story.joined("a", nodes_of(2, 2));
  fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  story.disconnect(b);
  b.state.phase = member_phase::succeeded;
  story.step(core::operator_stop_requested{"maintenance"});
  SECTION("the other one's workers ended as they were asked to") {}
  SECTION("it said so of an older round") {
    b.state.round = 0;
  }
  story.stop_all();
  story.pass(3s);
  story.connect(b);
  CHECK(b.wanted.phase == desired_phase::close);
  CHECK(b.wanted.exit_code == 143);
}

TEST_CASE("a success that crosses a stop while its node is away counts") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  story.say(a, member_phase::succeeded);
  story.step(core::operator_stop_requested{"maintenance"});
  story.say(a, member_phase::stopped);
  story.disconnect(b);
  b.state.succeeded = true;
  b.state.phase = member_phase::stopped;
  story.connect(b);
  CHECK(story.view().phase == run_phase::closed);
  CHECK(story.view().exit_code == 0);
}

TEST_CASE("a node that goes after the close and had no worker left is not waited for") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 1));
  story.start_round();
  SECTION("it had succeeded") {
    story.say(a, member_phase::succeeded);
  }
  SECTION("it had been stopped") {
    story.step(core::operator_stop_requested{"maintenance"});
    story.stop_all();
  }
  REQUIRE(a.wanted.phase == desired_phase::close);
  story.disconnect(a);
  CHECK(story.joined("b", nodes_of(1, 1)).wanted.phase == desired_phase::prepare);
}

TEST_CASE("a node of an earlier daemon's instance that had only waited is not waited for") {
  run_story story(restarted());
  fake_node& waiting = story.node("w", nodes_of(1, 1));
  waiting.state.instance = 42;
  story.connect(waiting);
  story.disconnect(waiting);
  fake_node& next = story.joined("a", nodes_of(1, 1));
  story.pass(10s);
  CHECK(next.wanted.phase == desired_phase::prepare);
}

TEST_CASE("a node that may open no further window is waited for until its workers are gone") {
  orphans_story story(2);
  story.now = run_story::origin + 12s;
  fake_node& newcomer = story.joined("new", nodes_of(1, 2));
  fake_node& liar = *story.members[0];
  liar.greeting.settings.timing.orphan_limit = 30s;
  for (int times = 0; times < 8; ++times) {
    liar.state.instance = 1000 + static_cast<instance_id>(times);
    story.connect(liar);
    story.disconnect(liar);
    story.pass(11s, {&liar});
  }
  fake_node& other = *story.members[1];
  story.connect(other);
  REQUIRE(other.wanted.phase == desired_phase::fence);
  story.pass(31s);
  CHECK(newcomer.wanted.phase == desired_phase::wait);
  // All have ended but one that no signal ends, which its node reports of the old round.
  other.state.unkillable = 1;
  story.say(other, member_phase::stopped);
  CHECK(newcomer.wanted.phase == desired_phase::prepare);
}

TEST_CASE("a node that did not end before the close, and is lost after it, had let go at least") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  story.step(core::operator_stop_requested{"maintenance"});
  story.say(a, member_phase::stopped);
  story.say(b, member_phase::stopping);
  story.pass(61s);
  REQUIRE(b.wanted.phase == desired_phase::close);
  story.goodbye(a);
  story.disconnect(b);
  fake_node& next = story.joined("c", nodes_of(1, 1));
  story.pass(16s);
  CHECK(next.wanted.phase == desired_phase::wait);
  story.pass(1s);
  CHECK(next.wanted.phase == desired_phase::prepare);
}

TEST_CASE("a run of which workers may live is not forgotten before they must be gone") {
  orphans_story story(2);
  story.connect(*story.members[0]);
  const time_point heard = story.now;
  story.disconnect(*story.members[0]);
  story.pass(3s);
  REQUIRE(story.sizes().nodes == 0);
  CHECK_FALSE(story.machine().forgettable(heard + 10min - 1ms));
  CHECK(story.machine().forgettable(heard + 10min));
}

TEST_CASE("whether a lost node was held is asked of its own instance") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 1));
  story.start_round();
  story.disconnect(a);
  story.pass(3s);
  story.step(core::operator_stop_requested{"maintenance"});  // of a round that no member has left
  fake_node& b = story.joined("b", nodes_of(1, 1));
  story.step(core::operator_stop_requested{"again"});  // of a round that never began
  story.goodbye(b);
  story.connect(a);
  REQUIRE(a.wanted.phase == desired_phase::close);
  story.disconnect(a);
  fake_node& next = story.joined("c", nodes_of(1, 1));
  story.pass(590s);
  CHECK(next.wanted.phase == desired_phase::wait);
  story.pass(10s);
  CHECK(next.wanted.phase == desired_phase::prepare);
}

// `stale_workers` without a run.
TEST_CASE("the wait for a node that ends its workers counts from when it was first told to") {
  stale_workers older;
  CHECK(older.add_ending(3, machine_origin));
  CHECK_FALSE(older.add_ending(3, machine_origin + 5s));
  REQUIRE(older.ending().size() == 1);
  CHECK(older.ending().at(3) == machine_origin);
  CHECK(older.drop_ending(3));
  CHECK_FALSE(older.drop_ending(3));
  CHECK(older.ending().empty());
}

TEST_CASE("of the nodes that have gone, the one whose workers may live longest counts") {
  stale_workers older;
  CHECK(older.lost_until() == time_point{});
  older.raise_lost_until(origin + 9s);
  older.raise_lost_until(origin + 4s);
  CHECK(older.lost_until() == origin + 9s);
  older.drop_lost();
  CHECK(older.lost_until() == time_point{});
}
