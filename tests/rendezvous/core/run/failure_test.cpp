// Rule 4: what the first failure does, and signals that ask a node to leave.
#include "rendezvous/core/messages/cause.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"

#include <csignal>

using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a failure stops everybody with one shared message and is charged once") {
  pair_story story;
  story.fail(*story.b, 3);
  CHECK(story.a->wanted.phase == desired_phase::stop);
  CHECK(story.a->wanted.round == 1);
  CHECK(story.a->wanted.grace == 5s);
  CHECK(story.a->wanted_buffer == story.b->wanted_buffer);
  story.fail(*story.a, 1);
  story.fail(*story.a, 1);
  story.stop_all();
  REQUIRE(story.view().root_cause);
  CHECK(story.view().root_cause->code == 3);
  CHECK(story.view().phase == run_phase::preparing);
  CHECK(story.view().round == 2);
  CHECK(story.view().restarts_used == 1);
  story.start_round();
  CHECK(story.a->wanted.restarts_used == 1);
  CHECK(story.b->wanted.restarts_used == 1);
  CHECK(story.a->wanted.assignment->group_rank == 0);
  CHECK(story.b->wanted.assignment->group_rank == 1);
}

TEST_CASE("the root cause is settled when the stop ends, from all reports") {
  pair_story story(nodes_of(2, 2, 0));
  story.fail(*story.b, 1);  // a broken connection, which is the effect
  cause killed;
  killed.round = 1;
  killed.node = "a";
  killed.kind = cause_class::signal;
  killed.code = SIGKILL;
  killed.age = 10ms;
  story.a->state.causes = {killed};
  story.stop_all();
  CHECK(story.a->wanted.phase == desired_phase::close);
  CHECK(story.a->wanted.exit_code == 128 + SIGKILL);
}

TEST_CASE("every member must run within start_timeout") {
  SECTION("the leader does not prepare") {
    run_story story;
    fake_node& only = story.joined("a", nodes_of(1, 1, 0));
    CHECK(only.wanted.phase == desired_phase::prepare);
    story.pass(60s);
    CHECK(only.wanted.phase == desired_phase::stop);
    CHECK(only.wanted.text == "a: has not started within 60 s (start_timeout), is still preparing");
    story.stop_all();
    CHECK(only.wanted.phase == desired_phase::close);
    CHECK(only.wanted.exit_code == 1);
  }
  SECTION("a member does not start its workers") {
    pair_story story;
    story.fail(*story.a, 1);
    story.stop_all();
    fake_node& leader = story.node_in(desired_phase::prepare);
    run_story::obey(leader);
    leader.state.service_port = 29502;
    story.say(leader, member_phase::preparing);
    CHECK(story.b->wanted.phase == desired_phase::run);
    story.say(*story.a, member_phase::running);
    story.say(*story.b, member_phase::starting);
    story.pass(60s);
    CHECK(story.b->wanted.text ==
          "b: has not started within 60 s (start_timeout), is still starting");
    CHECK(story.view().phase == run_phase::stopping);
  }
}

TEST_CASE("a member that keeps restoring data for its workers is not a slow start") {
  pair_story story;
  story.fail(*story.a, 1);
  story.stop_all();
  fake_node& leader = story.node_in(desired_phase::prepare);
  run_story::obey(leader);
  leader.state.service_port = 29502;
  story.say(leader, member_phase::preparing);
  story.say(*story.a, member_phase::running);
  story.say(*story.b, member_phase::starting);
  for (std::uint64_t restored = 1; restored <= 5; ++restored) {
    story.pass(59s);
    story.b->state.restored = restored << 30;
    story.say(*story.b);
  }
  CHECK(story.view().phase == run_phase::running);
  SECTION("until it is done") {
    story.say(*story.b, member_phase::running);
    story.pass(120s);
    CHECK(story.view().phase == run_phase::running);
  }
  SECTION("until no more comes") {
    story.pass(60s - 1ms);
    CHECK(story.view().phase == run_phase::running);
    story.pass(1ms);
    CHECK(story.b->wanted.text ==
          "b: has not started within 60 s (start_timeout), is still starting");
    CHECK(story.view().phase == run_phase::stopping);
  }
  SECTION("and what it had restored in the round before is forgotten") {
    story.fail(*story.a, 1);
    story.stop_all();
    fake_node& first = story.node_in(desired_phase::prepare);
    run_story::obey(first);
    first.state.service_port = 29502;
    story.say(first, member_phase::preparing);
    story.say(*story.a, member_phase::running);
    story.pass(59s);
    story.b->state.restored = 1;
    story.say(*story.b, member_phase::starting);
    story.pass(59s);
    CHECK(story.view().phase == run_phase::running);
  }
}

TEST_CASE("a leader that cannot prepare fails the round for all that were told of it") {
  run_story story;
  fake_node& leader = story.joined("a", nodes_of(2, 2));
  fake_node& other = story.joined("b", nodes_of(2, 2));
  run_story::obey(leader);
  cause why = run_story::cause_of(leader, cause_class::start);
  why.text = "port 29500 is in use";
  leader.state.causes = {why};
  story.say(leader, member_phase::failed);
  CHECK(leader.wanted.phase == desired_phase::stop);
  CHECK(other.wanted.phase == desired_phase::wait);
  CHECK(other.wanted.text.find("stopping round 1 (a: port 29500 is in use)") == 0);
  story.say(other);
  story.stop_all();
  CHECK(story.view().round == 2);
  CHECK(story.view().restarts_used == 1);
}

TEST_CASE("success is final: a later loss of that member does not end the round") {
  pair_story story;
  story.say(*story.b, member_phase::succeeded);
  story.disconnect(*story.b);
  story.pass(5s);
  CHECK(story.view().phase == run_phase::running);
  CHECK(story.why() ==
        "round 1 of 2 nodes and 4 workers runs; 1 node is done, waiting for a; "
        "for 5 s");
  story.say(*story.a, member_phase::succeeded);
  CHECK(story.a->wanted.phase == desired_phase::close);
  CHECK(story.a->wanted.exit_code == 0);
}

TEST_CASE("a worker that cannot be killed takes its node out; the others go on") {
  pair_story story(nodes_of(1, 2));
  fake_node& a = *story.a;
  fake_node& b = *story.b;
  story.fail(b, 1);
  b.state.unkillable = 1;
  story.stop_all();
  CHECK(a.wanted.phase == desired_phase::prepare);
  CHECK(a.wanted.group_world_size == 1);
  story.start_round();
  CHECK(story.view().phase == run_phase::running);
  b.state.unkillable = 0;
  story.say(b);
  CHECK(b.wanted.phase == desired_phase::wait);
}

TEST_CASE("a node loss that shows late is not charged as the worker failures it caused") {
  pair_story story(nodes_of(1, 2, 0));
  story.disconnect(*story.b);  // the host dies
  story.fail(*story.a, 1);     // its peer notices first
  CHECK(story.a->wanted.phase == desired_phase::stop);
  story.stop_all();
  CHECK(story.view().phase == run_phase::stopping);
  story.guardian(*story.b);
  story.pass(600ms);
  CHECK(story.view().restarts_used == 0);
  CHECK(story.view().node_losses == 1);
  CHECK(story.a->wanted.phase == desired_phase::prepare);
}

TEST_CASE("survivors keep their group ranks and a spare fills the hole") {
  run_settings settings = nodes_of(3, 3);
  settings.spares_max = 1;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  fake_node& c = story.joined("c", settings);
  story.start_round();
  fake_node& spare = story.joined("d", settings);
  story.guardian(b);
  story.say(spare);
  story.stop_all();
  story.pass(500ms);
  story.start_round();
  CHECK(a.wanted.assignment->group_rank == 0);
  CHECK(spare.wanted.assignment->group_rank == 1);
  CHECK(c.wanted.assignment->group_rank == 2);
  CHECK(c.wanted.round == 2);
}

TEST_CASE("a stop that crosses the last success ends the run well") {
  pair_story story(nodes_of(2, 2, 0));
  story.say(*story.a, member_phase::succeeded);
  story.disconnect(*story.a);
  story.step(core::agent_disconnected{0});
  story.b->state.draining = true;
  story.b->state.signal = SIGTERM;
  story.say(*story.b);
  CHECK(story.b->wanted.phase == desired_phase::stop);
  story.say(*story.b, member_phase::succeeded);
  CHECK(story.b->wanted.phase == desired_phase::close);
  CHECK(story.b->wanted.exit_code == 0);
}

TEST_CASE("nodes that have not been heard since the stop never make up a round") {
  pair_story story;
  story.pass(1ms);
  fake_node* const a = story.a;
  fake_node* const b = story.b;
  story.guardian(*b);
  // The host stands still after its workers have ended: it is connected, but silent.
  story.say(*a, member_phase::stopped);
  fake_node& c = story.joined("c", a->greeting.settings);
  story.pass(400ms, {a});
  CHECK(story.view().phase == run_phase::settling);
  story.pass(200ms, {a});
  CHECK(story.view().phase == run_phase::preparing);
  CHECK(c.wanted.phase == desired_phase::wait);
}

TEST_CASE("a last call that has passed is no longer a deadline") {
  run_settings settings = nodes_of(2, 2);
  settings.spares_max = 1;
  settings.timing.last_call_timeout = 1s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  story.start_round();
  fake_node& spare = story.joined("d", settings);
  story.pass(1ms);
  story.guardian(b);
  story.say(a, member_phase::stopped);
  // Two nodes are here, which is enough for a round, but one has sent nothing since the stop.
  story.pass(6s, {&spare});
  REQUIRE(story.view().phase == run_phase::gathering);
  const auto next = story.machine().next_deadline();
  REQUIRE(next);
  CHECK(*next > story.now);
  story.say(spare);
  CHECK(story.view().phase == run_phase::preparing);
}

TEST_CASE("a node that was left out of a round is not a survivor of it") {
  run_settings settings = nodes_of(2, 2);
  settings.spares_max = 1;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  story.start_round();
  fake_node& c = story.joined("c", settings);
  // A worker of b does not end, so c replaces b.
  story.fail(a, 1);
  story.say(c);
  b.state.unkillable = 1;
  story.stop_all();
  story.start_round();
  REQUIRE(c.wanted.phase == desired_phase::run);
  b.state.unkillable = 0;
  story.say(b);
  REQUIRE(b.wanted.phase == desired_phase::wait);
  story.fail(a, 1);
  story.say(b);
  story.stop_all();
  story.start_round();
  CHECK(story.view().round == 3);
  CHECK(a.wanted.phase == desired_phase::run);
  CHECK(c.wanted.phase == desired_phase::run);
  CHECK(b.wanted.phase == desired_phase::wait);
}

// A failure that is the effect of another one: DESIGN.md, rule 4.
TEST_CASE("a secondary failure ends the round once its root cause has had time to be reported") {
  pair_story story;
  cause effect = run_story::cause_of(*story.a, cause_class::exit);
  effect.code = 1;
  effect.is_secondary = true;
  effect.text = "Connection closed by peer";
  story.a->state.causes = {effect};
  story.say(*story.a, member_phase::failed);
  CHECK(story.view().phase == run_phase::running);
  SECTION("it is not told") {
    story.pass(1900ms);
    CHECK(story.view().phase == run_phase::running);
    story.pass(100ms);
    CHECK(story.view().phase == run_phase::stopping);
    CHECK(story.b->wanted.text == core::describe(effect));
  }
  SECTION("it is told by another node") {
    story.pass(1s);
    story.fail(*story.b, 7);
    CHECK(story.view().phase == run_phase::stopping);
    CHECK(story.a->wanted.text == "b: rank 2 (local rank 0) exited with code 7");
  }
  SECTION("it is told by another worker of the same node") {
    cause better = effect;
    better.is_secondary = false;
    better.code = 9;
    story.a->state.causes = {better, effect};
    story.say(*story.a, member_phase::failed);
    CHECK(story.view().phase == run_phase::stopping);
    CHECK(story.b->wanted.text == core::describe(better));
  }
  SECTION("the loop stood still") {
    story.pass(1s);
    story.now += 3s;
    story.step(core::loop_was_late{3s});
    story.pass(900ms);
    CHECK(story.view().phase == run_phase::running);
    story.pass(200ms);
    CHECK(story.view().phase == run_phase::stopping);
  }
  SECTION("where no worker is left, none is waited for") {
    story.pass(100ms);
    story.a->state.ends = {{ending::secondary, 0, 1}};
    story.say(*story.a);
    CHECK(story.view().phase == run_phase::running);
    effect.node = "b";
    story.b->state.causes = {effect};
    story.b->state.ends = {{ending::secondary, 2, 3}};
    story.say(*story.b, member_phase::failed);
    CHECK(story.view().phase == run_phase::stopping);
  }
  SECTION("more effects do not prolong it") {
    story.pass(1s);
    effect.node = "b";
    story.b->state.causes = {effect};
    story.say(*story.b, member_phase::failed);
    story.pass(1s);
    CHECK(story.view().phase == run_phase::stopping);
  }
}

TEST_CASE("a node that is lost during failure_grace is the root cause, and ends the grace") {
  run_settings settings = nodes_of(2, 2);
  settings.timing.failure_grace = 30s;
  pair_story story(settings);
  cause effect = run_story::cause_of(*story.a, cause_class::exit);
  effect.is_secondary = true;
  story.a->state.causes = {effect};
  story.say(*story.a, member_phase::failed);
  CHECK(story.notes.back() == core::describe(story.a->state.causes.front()) +
                                  ": this follows from another failure; waiting up to 30 s for "
                                  "that one to be reported (failure_grace)");
  story.disconnect(*story.b);
  story.pass(3s);
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(story.a->wanted.text == "b was lost: connection lost, not back within 2 s");
}

TEST_CASE("without failure_grace a secondary failure ends the round at once") {
  run_settings settings = nodes_of(2, 2);
  settings.timing.failure_grace = 0s;
  pair_story story(settings);
  cause effect = run_story::cause_of(*story.a, cause_class::exit);
  effect.is_secondary = true;
  story.a->state.causes = {effect};
  story.say(*story.a, member_phase::failed);
  CHECK(story.view().phase == run_phase::stopping);
}

// Signals that ask a node to leave: SIGINT stops the run, another drains the node. They may reach
// its agent and its workers in any order (rule 6).

namespace {

struct signal_story : pair_story {
  explicit signal_story(run_settings settings = nodes_of(1, 2, 0)) : pair_story(settings) {}
  // Its worker was ended by the signal; as far as the node knows, nobody asked for that.
  void worker_ends_by(fake_node& who, int signal, bool by_handler = false) {
    cause why = by_handler ? cause_of(who, cause_class::exit, 128 + signal)
                           : cause_of(who, cause_class::signal, signal);
    why.tail = "Terminated";
    who.state.causes = {why};
    say(who, member_phase::failed);
  }
};

}  // namespace

TEST_CASE("SIGTERM to a whole group is drain, whichever of agent and worker was noticed first") {
  signal_story story;
  const bool by_handler = GENERATE(false, true);
  SECTION("the worker first") {
    story.worker_ends_by(*story.b, SIGTERM, by_handler);
    REQUIRE(story.a->wanted.phase == desired_phase::stop);
    story.ask_to_leave(*story.b, SIGTERM);
  }
  SECTION("the agent first, and the worker had died before") {
    story.ask_to_leave(*story.b, SIGTERM);
    story.worker_ends_by(*story.b, SIGTERM, by_handler);
  }
  story.stop_all();
  CHECK(story.view().phase == run_phase::settling);
  CHECK(story.view().restarts_used == 0);
  REQUIRE(story.view().root_cause);
  CHECK(story.view().root_cause->kind == cause_class::drain);
  CHECK(story.why().find("b leaves on SIGTERM") != std::string::npos);
  story.pass(500ms);
  CHECK(story.b->wanted.phase == desired_phase::close);
  CHECK(story.b->wanted.exit_code == 0);
  CHECK(story.a->wanted.phase == desired_phase::prepare);
}

TEST_CASE("a node that drains excuses the peers that fell with it, and nothing else") {
  signal_story story;
  SECTION("a plain exit after it is its consequence") {
    story.worker_ends_by(*story.b, SIGTERM);
    story.fail(*story.a, 1);
    story.ask_to_leave(*story.b, SIGTERM);
    story.stop_all();
    CHECK(story.view().phase == run_phase::settling);
  }
  SECTION("a worker of another node that was killed is not") {
    story.worker_ends_by(*story.b, SIGTERM);
    story.worker_ends_by(*story.a, SIGKILL);
    story.ask_to_leave(*story.b, SIGTERM);
    story.stop_all();
    CHECK(story.a->wanted.phase == desired_phase::close);
    CHECK(story.a->wanted.exit_code == 128 + SIGKILL);
  }
  SECTION("nor is one that another signal killed") {
    story.worker_ends_by(*story.b, SIGKILL);
    story.ask_to_leave(*story.b, SIGTERM);
    story.stop_all();
    CHECK(story.a->wanted.phase == desired_phase::close);
    CHECK(story.a->wanted.exit_code == 128 + SIGKILL);
  }
  SECTION("nor one whose node was not asked") {
    story.worker_ends_by(*story.b, SIGTERM);
    story.stop_all();
    CHECK(story.a->wanted.phase == desired_phase::close);
    CHECK(story.a->wanted.exit_code == 128 + SIGTERM);
  }
}

TEST_CASE("SIGTERM to every process of every node ends the run: every node was asked to leave") {
  signal_story story;
  story.worker_ends_by(*story.b, SIGTERM);
  story.worker_ends_by(*story.a, SIGTERM);
  story.ask_to_leave(*story.a, SIGTERM);
  story.ask_to_leave(*story.b, SIGTERM);
  story.stop_all();
  story.pass(500ms);
  for (const fake_node* const who : {story.a, story.b}) {
    CHECK(who->wanted.phase == desired_phase::close);
    CHECK(who->wanted.exit_code == 128 + SIGTERM);
    CHECK(who->wanted.text == "every node was asked to leave");
  }
  CHECK(story.view().restarts_used == 0);
  REQUIRE(story.view().reports.size() == 1);
  const round_report report = story.view().reports.front();
  CHECK(report.is_last);
  CHECK(report.exit_code == 128 + SIGTERM);
  CHECK(report.text == "every node was asked to leave");
}

TEST_CASE("SIGINT to a whole group is an operator's stop, whatever was noticed first") {
  signal_story story;
  SECTION("the worker first") {
    story.worker_ends_by(*story.b, SIGINT);
    story.ask_to_leave(*story.b, SIGINT);
  }
  SECTION("the agent first") {
    story.ask_to_leave(*story.b, SIGINT);
    story.worker_ends_by(*story.b, SIGINT);
  }
  story.stop_all();
  CHECK(story.a->wanted.phase == desired_phase::close);
  CHECK(story.a->wanted.exit_code == 130);
  CHECK(story.a->wanted.text == "b: stopped by SIGINT");
}

TEST_CASE("the tail of a cause is kept when it is not said again") {
  signal_story story;
  story.worker_ends_by(*story.b, SIGSEGV);
  story.b->state.causes[0].tail.clear();
  story.b->state.causes[0].age = 5ms;
  story.say(*story.b);
  story.stop_all();
  REQUIRE(story.a->wanted.phase == desired_phase::close);
  REQUIRE(story.a->wanted.root_cause);
  CHECK(story.a->wanted.root_cause->tail == "Terminated");
}

TEST_CASE("SIGINT at a node that waits ends the run for all, with its code and name") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(3, 3));
  fake_node& b = story.joined("b", nodes_of(3, 3));
  story.ask_to_leave(b, SIGINT);
  for (const fake_node* const who : {&a, &b}) {
    CHECK(who->wanted.phase == desired_phase::close);
    CHECK(who->wanted.exit_code == 130);
    REQUIRE(who->wanted.root_cause);
    CHECK(who->wanted.root_cause->kind == cause_class::operator_stop);
    CHECK(who->wanted.root_cause->code == SIGINT);
    CHECK(who->wanted.root_cause->node == "b");
  }
}

TEST_CASE("SIGINT at a spare stops the round of the others") {
  run_settings settings = nodes_of(1, 1);
  settings.spares_max = 1;
  run_story story;
  fake_node& a = story.joined("a", settings);
  story.start_round();
  fake_node& spare = story.joined("b", settings);
  story.ask_to_leave(spare, SIGINT);
  CHECK(a.wanted.phase == desired_phase::stop);
  CHECK(a.wanted.grace == 30s);
  CHECK(a.wanted.is_unreported);
  story.stop_all();
  REQUIRE(a.wanted.root_cause);
  CHECK(a.wanted.root_cause->round == 1);
  CHECK(a.wanted.phase == desired_phase::close);
  CHECK(a.wanted.exit_code == 130);
  CHECK(spare.wanted.exit_code == 130);
}

TEST_CASE(
    "a signal at one node of a round that runs: SIGINT stops all by it, another drains the node") {
  pair_story story;
  SECTION("workers of the others get SIGINT, too") {
    story.ask_to_leave(*story.b, SIGINT);
    CHECK(story.a->wanted.phase == desired_phase::stop);
    CHECK(story.a->wanted.signal == SIGINT);
    CHECK(story.a->wanted.is_ordinary);
    story.stop_all();
    CHECK(story.a->wanted.phase == desired_phase::close);
    CHECK(story.a->wanted.exit_code == 130);
    CHECK(story.a->wanted.signal == 0);
    CHECK(story.b->wanted.exit_code == 130);
  }
  SECTION("a node whose leaving drains it") {
    story.ask_to_leave(*story.a, SIGHUP);
    CHECK(story.b->wanted.text == "a leaves on SIGHUP");
    CHECK(story.b->wanted.is_unreported);
    CHECK(story.b->wanted.is_ordinary);
    CHECK(story.b->wanted.signal == 0);
  }
}

// Its worker may be the one for which the others wait.
TEST_CASE("a stop is no ordinary one if a rank has failed") {
  signal_story story;
  SECTION("which is why it is stopped") {
    story.fail(*story.b, 1);
    REQUIRE(story.a->wanted.phase == desired_phase::stop);
    CHECK_FALSE(story.a->wanted.is_ordinary);
  }
  SECTION("and is no reason yet, when a node is asked to leave") {
    story.b->state.causes = {story.cause_of(*story.b, cause_class::exit, 1)};
    story.b->state.causes[0].is_secondary = true;
    story.say(*story.b, member_phase::failed);
    REQUIRE(story.a->wanted.phase == desired_phase::run);
    story.ask_to_leave(*story.a, SIGTERM);
    REQUIRE(story.b->wanted.phase == desired_phase::stop);
    CHECK_FALSE(story.b->wanted.is_ordinary);
  }
}
