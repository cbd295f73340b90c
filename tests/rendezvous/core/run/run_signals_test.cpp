// Signals that ask a node to leave: SIGINT stops the run (rule 4), another drains the node. They
// may reach its agent and its workers in any order (rule 6).
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"

#include <csignal>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

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
    CHECK(story.b->wanted.signal == 0);
  }
}
