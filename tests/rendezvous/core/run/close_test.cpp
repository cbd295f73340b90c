// Rules 8 and 9: success, and how an instance ends for all.
#include "rendezvous/core/run/instances.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"
#include "tests/support/time_origin.hpp"

#include <csignal>

using ddprun::tests::origin;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("success of all closes the run with 0; goodbye acknowledges") {
  pair_story story;
  story.say(*story.a, member_phase::succeeded);
  CHECK(story.a->wanted.phase == desired_phase::run);
  story.say(*story.b, member_phase::succeeded);
  CHECK(story.a->wanted.phase == desired_phase::close);
  CHECK(story.a->wanted.exit_code == 0);
  CHECK(story.a->wanted_buffer == story.b->wanted_buffer);
  CHECK(story.view().exit_code == 0);
  story.goodbye(*story.a);
  story.goodbye(*story.b);
  CHECK_FALSE(story.machine().forgettable(story.now + 59min));
  CHECK(story.machine().forgettable(story.now + 60min));
}

TEST_CASE("for an hour a node that was away at the close is told when it comes back") {
  pair_story story;
  const instance_id first = story.view().instance;
  story.say(*story.b, member_phase::succeeded);
  story.disconnect(*story.b);
  story.say(*story.a, member_phase::succeeded);
  story.goodbye(*story.a);
  story.pass(50min);
  SECTION("by its instance") {
    story.connect(*story.b);
    CHECK(story.b->wanted.phase == desired_phase::close);
    CHECK(story.b->wanted.instance == first);
    CHECK(story.b->wanted.exit_code == 0);
  }
  SECTION("also beside the next instance") {
    const fake_node& next = story.joined("a", nodes_of(2, 2));
    CHECK(next.wanted.phase == desired_phase::wait);
    CHECK(story.view().instance != first);
    story.connect(*story.b);
    CHECK(story.b->wanted.phase == desired_phase::close);
    CHECK(story.view().phase == run_phase::gathering);
    CHECK(story.view().instance != first);
  }
}

TEST_CASE("a hello without an instance opens the next instance of a closed run") {
  pair_story story(nodes_of(2, 2, 0));
  const instance_id first = story.view().instance;
  story.fail(*story.b, 3);
  story.stop_all();
  CHECK(story.view().phase == run_phase::closed);
  story.goodbye(*story.a);
  fake_node& again = story.joined("a", nodes_of(1, 1));
  CHECK(again.wanted.phase == desired_phase::prepare);
  CHECK(again.wanted.instance != first);
  CHECK(again.wanted.round == 1);
  CHECK(story.b->wanted.phase == desired_phase::close);
  story.goodbye(*story.b);
  story.start_round();
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("the next instance of a run has the time for a signal's end of its own first node") {
  run_story story;
  fake_node& first = story.joined("a", nodes_of(1, 1));
  story.start_round();
  story.say(first, member_phase::succeeded);
  story.goodbye(first);
  REQUIRE(story.view().phase == run_phase::closed);
  run_settings other = nodes_of(1, 1);
  other.timing.drain_grace = 5s;
  story.joined("a", other);
  REQUIRE(story.view().settings);
  CHECK(story.view().settings->timing.drain_grace == 5s);
}

TEST_CASE("a drained node leaves with 0 when the run goes on without it, free of charge") {
  pair_story story(nodes_of(1, 2, 0));
  story.ask_to_leave(*story.a, SIGTERM);
  CHECK(story.b->wanted.phase == desired_phase::stop);
  CHECK(story.b->wanted.grace == 30s);
  story.stop_all();
  CHECK(story.view().phase == run_phase::settling);
  story.pass(500ms);
  CHECK(story.a->wanted.phase == desired_phase::close);
  CHECK(story.a->wanted.exit_code == 0);
  CHECK(story.b->wanted.phase == desired_phase::prepare);
  story.goodbye(*story.a);
  story.start_round();
  CHECK(story.view().restarts_used == 0);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("a drained node leaves with 0 when the run falls to gathering") {
  pair_story story;
  story.ask_to_leave(*story.b, SIGTERM);
  story.stop_all();
  story.pass(500ms);
  CHECK(story.b->wanted.phase == desired_phase::close);
  CHECK(story.b->wanted.exit_code == 0);
  CHECK(story.a->wanted.phase == desired_phase::wait);
  CHECK(story.view().phase == run_phase::gathering);
}

TEST_CASE("a signal to all ends the run with 128 + the signal, SIGTERM where none is named") {
  const int signal = GENERATE(SIGTERM, SIGHUP, 0);
  pair_story story;
  story.ask_to_leave(*story.a, signal);
  story.ask_to_leave(*story.b, signal);
  story.stop_all();
  story.pass(500ms);
  CHECK(story.a->wanted.phase == desired_phase::close);
  CHECK(story.a->wanted.exit_code == 128 + (signal == SIGHUP ? SIGHUP : SIGTERM));
  CHECK(story.b->wanted.exit_code == story.a->wanted.exit_code);
}

TEST_CASE("a lone node that waits and is asked to leave ends the run") {
  run_story story;
  fake_node& alone = story.joined("a", nodes_of(2, 2));
  story.ask_to_leave(alone, SIGHUP);
  CHECK(alone.wanted.phase == desired_phase::close);
  CHECK(alone.wanted.exit_code == 128 + SIGHUP);
}

TEST_CASE("a spare leaves without disturbing the round") {
  run_settings settings = nodes_of(1, 1);
  settings.spares_max = 1;
  run_story story;
  story.joined("a", settings);
  story.start_round();
  fake_node& spare = story.joined("b", settings);
  story.ask_to_leave(spare, SIGTERM);
  CHECK(spare.wanted.phase == desired_phase::close);
  CHECK(spare.wanted.exit_code == 0);
  story.goodbye(spare);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("an operator's stop ends a run that gathers") {
  run_story story;
  fake_node& alone = story.joined("a", nodes_of(2, 2));
  story.step(core::operator_stop_requested{"maintenance"});
  CHECK(alone.wanted.phase == desired_phase::close);
  CHECK(alone.wanted.exit_code == 143);
  CHECK(alone.wanted.text == "stopped by an operator: maintenance");
}

TEST_CASE("a leader whose workers are done stays for the others, a member may go") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(3, 3));
  fake_node& b = story.joined("b", nodes_of(3, 3));
  fake_node& c = story.joined("c", nodes_of(3, 3));
  story.start_round();
  story.say(a, member_phase::succeeded);
  story.say(b, member_phase::succeeded);
  story.ask_to_leave(a, SIGTERM);
  story.ask_to_leave(b, SIGTERM);
  CHECK(a.wanted.phase == desired_phase::run);
  CHECK(b.wanted.phase == desired_phase::close);
  story.goodbye(b);
  CHECK(story.view().phase == run_phase::running);
  story.say(c, member_phase::succeeded);
  CHECK(a.wanted.phase == desired_phase::close);
  CHECK(a.wanted.exit_code == 0);
  CHECK(c.wanted.exit_code == 0);
}

TEST_CASE("a fenced node with workers that do not end is told of the close when it says so") {
  run_story story;
  const run_settings settings = nodes_of(1, 2);
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  story.start_round();
  story.disconnect(b);
  story.pass(2s);
  story.stop_all();
  story.pass(20s);
  story.start_round();
  REQUIRE(story.view().phase == run_phase::running);
  story.connect(b);
  REQUIRE(b.wanted.phase == desired_phase::fence);
  const bool closes_before = GENERATE(true, false);
  if (closes_before) story.say(a, member_phase::succeeded);
  story.say(b, member_phase::stopping);
  CHECK(b.wanted.phase == desired_phase::fence);
  b.state.unkillable = 1;
  story.say(b, member_phase::stopped);
  if (!closes_before) {
    CHECK(b.wanted.phase == desired_phase::fence);
    story.say(a, member_phase::succeeded);
    story.say(b);
  }
  CHECK(b.wanted.phase == desired_phase::close);
  CHECK(b.wanted.exit_code == 0);
  CHECK(b.answered == b.state.seq);
}

TEST_CASE("a fenced node that joins again long after the close is counted in the next instance") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  // It claims to run a round that this daemon has never begun.
  a.state.instance = story.view().instance;
  a.state.round = 9;
  a.state.phase = member_phase::running;
  story.disconnect(a);
  story.connect(a);
  REQUIRE(a.wanted.phase == desired_phase::fence);
  story.step(core::operator_stop_requested{"maintenance"});
  REQUIRE(story.view().phase == run_phase::closed);
  story.now += 1h;
  story.rejoin(a);
  CHECK(a.wanted.phase == desired_phase::wait);
  CHECK(story.why().find("; here: a (2 workers)") != std::string::npos);
  story.joined("b", nodes_of(2, 2));
  CHECK(a.wanted.phase == desired_phase::prepare);
}

TEST_CASE(
    "the settings of a node that comes back to a closed instance need not be the next one's") {
  pair_story story;
  story.say(*story.b, member_phase::succeeded);
  story.disconnect(*story.b);
  story.pass(3s);
  story.say(*story.a, member_phase::succeeded);
  story.goodbye(*story.a);
  story.joined("c", nodes_of(1, 1));
  REQUIRE(story.view().phase == run_phase::preparing);
  story.connect(*story.b);
  CHECK(story.b->refusal.empty());
  CHECK(story.b->wanted.phase == desired_phase::close);
}

TEST_CASE("a node that leaves after the close takes nothing of the next instance with it") {
  pair_story story;
  story.say(*story.a, member_phase::succeeded);
  story.say(*story.b, member_phase::succeeded);
  REQUIRE(story.view().phase == run_phase::closed);
  fake_node& c = story.joined("c", nodes_of(2, 2));
  story.goodbye(*story.a);
  story.disconnect(*story.b);
  CHECK(story.sizes().settings_groups == 1);
  CHECK(story.sizes().nodes == 1);
  story.joined("d", nodes_of(2, 2));
  CHECK(c.wanted.phase == desired_phase::prepare);
}

TEST_CASE("the last node to leave a daemon that has just started exits with the signal's code") {
  run_story story(restarted());
  fake_node& alone = story.joined("a", nodes_of(2, 2));
  story.ask_to_leave(alone, SIGTERM);
  CHECK(alone.wanted.phase == desired_phase::close);
  CHECK(alone.wanted.exit_code == 128 + SIGTERM);
}

TEST_CASE("the round of a close is the newest that either side knows") {
  pair_story story;
  story.fail(*story.a, 1);
  story.stop_all();
  story.start_round();
  REQUIRE(story.view().round == 2);
  story.disconnect(*story.b);
  story.say(*story.a, member_phase::succeeded);
  story.step(core::operator_stop_requested{"maintenance"});
  story.stop_all();
  story.pass(3s);
  REQUIRE(story.view().phase == run_phase::closed);
  const round_number said = GENERATE(1U, 5U);
  story.b->state.round = said;
  story.connect(*story.b);
  CHECK(story.b->wanted.phase == desired_phase::close);
  CHECK(story.b->wanted.round == std::max<round_number>(said, 2));
}

// What a run remembers of instances that are over, tested without the run.
namespace {

session_id session_of(std::uint64_t number) {
  return {0, number};
}

closed_instance instance_of(instance_id number) {
  closed_instance one;
  one.instance = number;
  one.closed_at = origin;
  return one;
}

hello hello_from(std::uint64_t session, instance_id said) {
  hello greeting;
  greeting.session = session_of(session);
  greeting.state.instance = said;
  return greeting;
}

status success_of(round_number round, std::uint32_t group_rank, std::uint32_t size) {
  status said;
  said.round = round;
  said.phase = member_phase::succeeded;
  said.assignment.emplace();
  said.assignment->group_rank = group_rank;
  said.assignment->group_world_size = size;
  return said;
}

}  // namespace

TEST_CASE("a node belongs to the closed instance that it names, or that misses it") {
  closed_instances closed;
  closed_instance one = instance_of(5);
  one.absent.insert(session_of(1));
  closed.add(one);
  closed.add(instance_of(6));
  CHECK(closed.newest().instance == 6);
  CHECK(closed.absent_count() == 1);

  REQUIRE(closed.of(hello_from(9, 5), origin) != nullptr);
  CHECK(closed.of(hello_from(9, 5), origin)->instance == 5);
  REQUIRE(closed.of(hello_from(1, 0), origin) != nullptr);
  CHECK(closed.of(hello_from(1, 0), origin)->instance == 5);
  CHECK(closed.of(hello_from(2, 0), origin) == nullptr);
  CHECK(closed.of(hello_from(1, 7), origin) == nullptr);

  closed.said_goodbye(session_of(1));
  CHECK(closed.of(hello_from(1, 0), origin) == nullptr);
  CHECK(closed.absent_count() == 0);
}

TEST_CASE("a closed instance is remembered for its time, and so many of them") {
  closed_instances closed;
  closed.add(instance_of(5));
  CHECK_FALSE(closed.are_all_old(origin + closed_memory - 1ms));
  CHECK(closed.are_all_old(origin + closed_memory));
  CHECK(closed.of(hello_from(1, 5), origin + closed_memory) == nullptr);
  closed.forget_old(origin + closed_memory - 1ms);
  CHECK(closed.size() == 1);
  closed.forget_old(origin + closed_memory);
  CHECK(closed.empty());

  for (instance_id number = 1; number <= closed_instances_max + 1; ++number)
    closed.add(instance_of(number));
  CHECK(closed.size() == closed_instances_max);
  CHECK(closed.of(hello_from(1, 1), origin) == nullptr);
  CHECK(closed.of(hello_from(1, 2), origin) != nullptr);
}

TEST_CASE(
    "members that were left behind may live until they are removed, or until the first lets go") {
  closed_instance one = instance_of(5);
  one.left.sessions = {session_of(1), session_of(2)};
  one.left.until = origin + 600s;
  one.left.is_held = true;
  one.left.let_go_limit = 20s;
  closed_instances closed;
  closed.add(one);
  CHECK(closed.living_until() == origin + 600s);
  CHECK_FALSE(closed.has_let_go(5));

  SECTION("another's word says nothing of them") {
    closed.take_out(session_of(9), 8, true, origin);
    CHECK(closed.living_until() == origin + 600s);
  }
  SECTION("all are known from elsewhere") {
    closed.take_out(session_of(1), 5, false, origin);
    CHECK(closed.living_until() == origin + 600s);
    closed.take_out(session_of(2), 5, false, origin);
    CHECK(closed.living_until() == time_point{});
  }
  SECTION("the first that lets go lets go for all, later ones no further") {
    closed.take_out(session_of(1), 0, true, origin + 10s);
    CHECK(closed.has_let_go(5));
    CHECK(closed.living_until() == origin + 30s);
    closed.take_out(session_of(9), 5, true, origin + 5s);
    CHECK(closed.living_until() == origin + 30s);
  }
}

TEST_CASE("workers of unknown sessions may live until their time is over") {
  closed_instance one = instance_of(5);
  one.left.unknown = 1;
  one.left.until = origin + 600s;
  closed_instances closed;
  closed.add(one);
  closed.take_out(session_of(1), 5, false, origin);
  CHECK(closed.living_until() == origin + 600s);
}

TEST_CASE("a round has succeeded when all of its places say so") {
  leftovers left;
  left.round = 4;
  left.succeeded.insert(0);
  CHECK_FALSE(left.complete_success(success_of(3, 1, 2)));
  CHECK_FALSE(left.complete_success(success_of(4, 0, 2)));
  CHECK(left.complete_success(success_of(4, 1, 2)));
  CHECK_FALSE(left.complete_success(success_of(5, 1, 2)));
  CHECK(left.complete_success(success_of(5, 0, 2)));
}
