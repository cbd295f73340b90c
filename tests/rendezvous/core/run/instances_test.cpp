// The end of an instance and the beginning of the next: which nodes are told what, and that nothing
// of the one counts in the other.
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"

#include <csignal>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

struct instance_story : run_story {
  explicit instance_story(run_settings settings = nodes_of(2, 2), core::run_options options = {})
      : run_story(std::move(options)) {
    a = &joined("a", settings);
    b = &joined("b", settings);
    start_round();
    first = view().instance;
  }
  fake_node* a = nullptr;
  fake_node* b = nullptr;
  instance_id first = 0;
};

}  // namespace

TEST_CASE("a node that comes back to a closed instance is told all about its end") {
  core::run_options options;
  options.epoch = 6;
  instance_story story(nodes_of(2, 2, 1), options);
  story.fail(*story.b, 3);
  story.stop_all();
  story.start_round();
  story.say(*story.b, member_phase::succeeded);
  story.disconnect(*story.b);
  story.fail(*story.a, 4);
  story.stop_all();
  REQUIRE(story.view().phase == run_phase::closed);
  story.goodbye(*story.a);
  story.b->state.desired_seq = 4000;
  story.connect(*story.b);
  const desired& told = story.b->wanted;
  CHECK(told.phase == desired_phase::close);
  CHECK(told.epoch == 6);
  CHECK(told.instance == story.first);
  CHECK(told.round == 2);
  CHECK(told.seq > 4000);
  CHECK(told.restarts_used == 1);
  CHECK(told.exit_code == 4);
  REQUIRE(told.root_cause);
  CHECK(told.root_cause->code == 4);
  CHECK(told.text == "a: rank 0 (local rank 0) exited with code 4; the only restart is used");
  CHECK(story.b->wanted.exit_code == story.a->wanted.exit_code);
  // It is told again when its connection breaks before it has left.
  const std::size_t before = story.b->desired_count;
  story.connect(*story.b);
  CHECK(story.b->desired_count == before + 1);
  CHECK(story.b->wanted.phase == desired_phase::close);
}

TEST_CASE(
    "a node that was away at the close and had forgotten its instance is known by its session") {
  instance_story story;
  story.say(*story.b, member_phase::succeeded);
  story.disconnect(*story.b);
  const bool given_up = GENERATE(false, true);
  story.pass(given_up ? 3s : 1s);
  story.say(*story.a, member_phase::succeeded);
  story.b->state = {};
  SECTION("it has not heard of it") {
    story.connect(*story.b);
    CHECK(story.b->wanted.phase == desired_phase::close);
    CHECK(story.b->wanted.instance == story.first);
  }
  SECTION("one that was there and cannot have left yet, either") {
    story.disconnect(*story.a);
    story.a->state = {};
    story.connect(*story.a);
    CHECK(story.a->wanted.phase == desired_phase::close);
  }
  SECTION("one that said goodbye has: it is of the next instance") {
    story.goodbye(*story.a);
    story.a->state = {};
    story.connect(*story.a);
    CHECK(story.a->wanted.phase == desired_phase::wait);
    CHECK(story.view().instance != story.first);
  }
  SECTION("for an hour") {
    story.now += 1h;
    story.connect(*story.b);
    CHECK(story.b->wanted.phase == desired_phase::wait);
  }
}

TEST_CASE("a node that died for certain before the close is not waited for after it") {
  instance_story story;
  story.say(*story.b, member_phase::succeeded);
  story.guardian(*story.b);
  story.say(*story.a, member_phase::succeeded);
  REQUIRE(story.view().phase == run_phase::closed);
  story.b->state = {};
  story.b->connection = 0;
  story.connect(*story.b);
  CHECK(story.b->wanted.phase == desired_phase::wait);
}

TEST_CASE("a node that leaves after the close is forgotten at once, and the run an hour later") {
  instance_story story;
  story.say(*story.a, member_phase::succeeded);
  story.say(*story.b, member_phase::succeeded);
  CHECK(story.view().members.size() == 2);
  story.disconnect(*story.a);
  story.goodbye(*story.b);
  CHECK(story.view().members.empty());
  const time_point closed = story.now;
  CHECK_FALSE(story.machine().forgettable(closed + 1h - 1ms));
  CHECK(story.machine().forgettable(closed + 1h));
}

TEST_CASE("a fenced node is told of the close once it has killed its workers") {
  instance_story story(nodes_of(1, 2));
  fake_node& stray = story.node("stray", story.a->greeting.settings);
  stray.state.instance = 4711;
  stray.state.round = 9;
  stray.state.phase = member_phase::running;
  story.connect(stray);
  REQUIRE(stray.wanted.phase == desired_phase::fence);
  const std::size_t told = stray.desired_count;
  story.say(*story.a, member_phase::succeeded);
  story.say(*story.b, member_phase::succeeded);
  CHECK(stray.desired_count == told);
  story.rejoin(stray);
  CHECK(stray.wanted.phase == desired_phase::close);
  CHECK(stray.wanted.instance == story.first);
}

TEST_CASE("an instance begins with nothing of the one before") {
  instance_story story(nodes_of(1, 2, 3));
  story.guardian(*story.b);
  story.stop_all();
  story.pass(600ms);
  story.start_round();
  story.fail(*story.a, 3);
  story.stop_all();
  story.start_round();
  REQUIRE(story.view().restarts_used == 1);
  REQUIRE(story.view().node_losses == 1);
  story.step(core::operator_stop_requested{"maintenance"});
  story.stop_all();
  REQUIRE(story.view().phase == run_phase::closed);
  story.goodbye(*story.a);

  run_settings other = nodes_of(2, 2, 1);
  fake_node& c = story.joined("c", other);
  CHECK(story.view().phase == run_phase::gathering);
  CHECK(story.view().instance != story.first);
  CHECK(story.view().restarts_used == 0);
  CHECK(story.view().node_losses == 0);
  CHECK_FALSE(story.view().root_cause);
  CHECK_FALSE(story.view().settings);
  CHECK(story.view().world_size == 0);
  CHECK(story.view().master_port == 0);
  CHECK(c.wanted.restarts_used == 0);
  fake_node& d = story.joined("d", other);
  story.start_round();
  CHECK(story.view().round == 1);
  // It restarts, is charged, and is stopped by a person, like any other.
  story.fail(d, 1);
  story.stop_all();
  CHECK(story.view().phase == run_phase::preparing);
  CHECK(story.view().restarts_used == 1);
  story.start_round();
  story.step(core::operator_stop_requested{"again"});
  story.stop_all();
  CHECK(c.wanted.exit_code == 143);
  CHECK(c.wanted.text == "stopped by an operator: again");
}

TEST_CASE("a drain or a join that was under way at a close does not reach the next instance") {
  run_settings settings = nodes_of(1, 2, 0);
  settings.on_join = join_policy::restart;
  settings.timing.last_call_timeout = 1s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  story.pass(1s);
  story.start_round();
  SECTION("a join") {
    fake_node& b = story.joined("b", settings);
    story.step(core::operator_stop_requested{"x"});
    story.stop_all();
    story.goodbye(b);
  }
  SECTION("a drain") {
    story.ask_to_leave(a, SIGTERM);
    story.stop_all();
    story.pass(600ms);
  }
  REQUIRE(story.view().phase == run_phase::closed);
  story.goodbye(a);
  fake_node& c = story.joined("c", nodes_of(1, 1, 0));
  story.start_round();
  story.fail(c, 7);
  story.stop_all();
  CHECK(c.wanted.phase == desired_phase::close);
  CHECK(c.wanted.exit_code == 7);
}

TEST_CASE("before the first node has come, and after the close, there is nothing to stop") {
  run_story story;
  story.step(core::operator_stop_requested{"too early"});
  fake_node& a = story.joined("a", nodes_of(1, 1));
  CHECK(a.wanted.phase == desired_phase::prepare);
  story.start_round();
  story.say(a, member_phase::succeeded);
  const std::size_t told = a.desired_count;
  story.step(core::operator_stop_requested{"too late"});
  CHECK(a.desired_count == told);
  CHECK(story.view().exit_code == 0);
  story.goodbye(a);
  CHECK(story.joined("b", nodes_of(1, 1)).wanted.phase == desired_phase::prepare);
}

TEST_CASE("an operator's stop stops the round with the drain's grace, and waits for nobody lost") {
  instance_story story(nodes_of(1, 2));
  SECTION("of a round that runs") {
    story.step(core::operator_stop_requested{"maintenance"});
    CHECK(story.a->wanted.phase == desired_phase::stop);
    CHECK(story.a->wanted.grace == 30s);
    CHECK(story.a->wanted.signal == 0);
    CHECK(story.a->wanted.text == "stopped by an operator: maintenance");
    CHECK(story.a->wanted.is_unreported);
    const std::size_t told = story.a->desired_count;
    story.step(core::operator_stop_requested{"maintenance, again"});
    CHECK(story.a->desired_count == told);
  }
  SECTION("of one that is being stopped") {
    story.fail(*story.b, 3);
    story.step(core::operator_stop_requested{"maintenance"});
    CHECK(story.a->wanted.grace == 5s);
  }
  SECTION("of one of which nobody knows where a node is") {
    story.disconnect(*story.b);
    story.pass(2s);
    REQUIRE(story.view().phase == run_phase::stopping);
    story.step(core::operator_stop_requested{"maintenance"});
  }
  story.stop_all();
  CHECK(story.view().phase == run_phase::closed);
  CHECK(story.a->wanted.phase == desired_phase::close);
  CHECK(story.a->wanted.exit_code == 143);
  REQUIRE(story.a->wanted.root_cause);
  CHECK(story.a->wanted.root_cause->kind == cause_class::operator_stop);
  CHECK(story.view().restarts_used == 0);
}

TEST_CASE(
    "a drain is seen once: its node is told once, and the quiet after it is not made longer") {
  instance_story story(nodes_of(1, 2));
  story.ask_to_leave(*story.b, SIGTERM);
  CHECK(story.a->wanted.grace == 30s);
  const time_point asked = story.now;
  story.now += 400ms;
  story.say(*story.b);
  story.stop_all();
  REQUIRE(story.view().root_cause);
  const cause why = *story.view().root_cause;
  CHECK(why.kind == cause_class::drain);
  CHECK(why.code == SIGTERM);
  CHECK(why.group_rank == 1);
  CHECK(why.round == 1);
  CHECK(why.node == "b");
  REQUIRE(story.view().phase == run_phase::settling);
  CHECK(*story.machine().next_deadline() == asked + 500ms);
}

TEST_CASE("a node that is asked to leave while its round stops, for another reason") {
  instance_story story(nodes_of(1, 2));
  story.fail(*story.a, 1);
  const time_point failed = story.now;
  story.now += 200ms;
  // Others may be asked to leave, too, so the choice waits for `settle`.
  story.ask_to_leave(*story.b, SIGTERM);
  story.stop_all();
  REQUIRE(story.view().phase == run_phase::settling);
  CHECK(*story.machine().next_deadline() == failed + 700ms);
  story.pass(600ms);
  CHECK(story.b->wanted.phase == desired_phase::close);
  CHECK(story.b->wanted.exit_code == 0);
  CHECK(story.a->wanted.phase == desired_phase::prepare);
}

TEST_CASE("nodes that wait and are asked to leave leave with 0, but the last with the signal") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(3, 3));
  fake_node& b = story.joined("b", nodes_of(3, 3));
  story.ask_to_leave(a, SIGTERM);
  CHECK(a.wanted.phase == desired_phase::close);
  CHECK(a.wanted.exit_code == 0);
  CHECK(a.wanted.text == "this node was asked to leave; the run goes on without it");
  CHECK(story.view().phase == run_phase::gathering);
  story.goodbye(a);
  b.state.draining = true;
  story.say(b);
  CHECK(b.wanted.exit_code == 128 + SIGTERM);  // if no signal is named
  CHECK(story.view().phase == run_phase::closed);
}

TEST_CASE("a member that is asked to leave while its round is prepared ends that round") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 2));
  fake_node& b = story.joined("b", nodes_of(1, 2));
  REQUIRE(story.view().phase == run_phase::preparing);
  story.ask_to_leave(b, SIGTERM);
  CHECK(a.wanted.phase == desired_phase::stop);
  story.stop_all();
  story.pass(600ms);
  CHECK(story.view().round == 2);
  CHECK(b.wanted.phase == desired_phase::close);
  CHECK(b.wanted.exit_code == 0);
}
