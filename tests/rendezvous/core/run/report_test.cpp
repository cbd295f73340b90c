// What is said of a round when it is over: DESIGN.md, rule 11.
#include "rendezvous/core/messages/cause.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"

#include <csignal>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

// Node b's first worker fails, and everybody stops.
void fail_and_stop(pair_story& story) {
  story.pass(3s);
  story.fail(*story.b, 7);
  story.a->state.ends = {{ending::stopped, 0, 0}, {ending::killed, 1, 1}};
  story.b->state.ends = {{ending::failed, 2, 2}, {ending::stopped, 3, 3}};
  story.stop_all();
}

}  // namespace

TEST_CASE("each member is told how the round ended, before what follows, and alike") {
  pair_story story;
  fail_and_stop(story);
  REQUIRE(story.a->reports.size() == 1);
  const round_report& report = story.a->reports[0];
  CHECK(report == story.b->reports.at(0));
  CHECK(report.instance == story.a->state.instance);
  CHECK(report.round == 1);
  CHECK(report.lasted == 3s);
  CHECK(report.world_size == 4);
  CHECK(report.group_world_size == 2);
  REQUIRE(report.root_cause);
  CHECK(report.root_cause->code == 7);
  CHECK(report.ends == std::vector<ended_ranks>{{ending::failed, 2, 2},
                                                {ending::killed, 1, 1},
                                                {ending::stopped, 0, 0},
                                                {ending::stopped, 3, 3}});
  CHECK_FALSE(report.is_last);
  CHECK(report.restarts_used == 1);
  CHECK(report.restarts_max == 3);
  CHECK(report.text == "restart 1 of 3");
  CHECK(story.view().reports.size() == 1);
}

TEST_CASE("the last report says with what the run ends, and why nothing follows") {
  pair_story story(nodes_of(2, 2, 1));
  fail_and_stop(story);
  story.start_round();
  fail_and_stop(story);
  REQUIRE(story.a->reports.size() == 2);
  const round_report& report = story.a->reports[1];
  CHECK(report.is_last);
  CHECK(report.exit_code == 7);
  CHECK(report.text == "the only restart is used");
  CHECK(story.a->wanted.phase == desired_phase::close);
}

TEST_CASE("a run that goes well is reported, too") {
  pair_story story;
  story.pass(5s);
  story.say(*story.a, member_phase::succeeded);
  story.say(*story.b, member_phase::succeeded);
  REQUIRE(story.a->reports.size() == 1);
  const round_report& report = story.a->reports[0];
  CHECK_FALSE(report.root_cause);
  CHECK(report.is_last);
  CHECK(report.exit_code == 0);
  CHECK(report.ends == std::vector<ended_ranks>{{ending::succeeded, 0, 3}});
}

TEST_CASE("the ranks of a node that was lost are, and who comes back hears what it has missed") {
  run_settings settings = nodes_of(1, 2);
  pair_story story(settings);
  story.disconnect(*story.b);
  story.pass(3s);
  story.a->state.ends = {{ending::secondary, 0, 1}};
  story.stop_all();
  story.pass(60s);
  REQUIRE(story.a->reports.size() == 1);
  const round_report& report = story.a->reports[0];
  CHECK(report.root_cause->kind == cause_class::node_lost);
  CHECK(report.ends == std::vector<ended_ranks>{{ending::secondary, 0, 1}, {ending::lost, 2, 3}});
  CHECK(report.text == "going on without it: node loss 1 of 10 within an hour");
}

TEST_CASE(
    "a round that is ended for a node that joins has not failed, whatever our stop has ended") {
  run_settings settings = nodes_of(1, 2);
  settings.on_join = join_policy::restart;
  run_story story;
  fake_node& first = story.joined("a", settings);
  story.pass(60s);
  story.start_round();
  story.pass(20s);
  story.joined("b", settings);
  cause stopped = run_story::cause_of(first, cause_class::signal, SIGTERM);
  stopped.by_our_stop = true;
  first.state.causes = {stopped};
  story.stop_all();
  REQUIRE(first.reports.size() == 1);
  const round_report& report = first.reports[0];
  CHECK_FALSE(report.root_cause);
  CHECK(report.text ==
        "going on: b joins: the round restarts with it; no restart is charged for that");
}

TEST_CASE("a report is said again to a member that was away when it was said") {
  pair_story story;
  story.pass(1s);
  story.fail(*story.b, 7);
  story.b->state.ends = {{ending::failed, 2, 3}};
  story.a->state.ends = {{ending::stopped, 0, 1}};
  story.say(*story.b, member_phase::stopped);
  story.disconnect(*story.a);
  story.connect(*story.a);
  CHECK(story.a->reports.empty());
  story.say(*story.a, member_phase::stopped);
  REQUIRE(story.a->reports.size() == 1);
  story.disconnect(*story.a);
  story.connect(*story.a);
  REQUIRE(story.a->reports.size() == 2);
  CHECK(story.a->reports[1].text == story.a->reports[0].text);
}

TEST_CASE("who had said why it fails before it was stopped is the cause of those who lost it") {
  pair_story story;
  cause effect = run_story::cause_of(*story.a, cause_class::exit, 1);
  effect.is_secondary = true;
  story.a->state.causes = {effect};
  story.say(*story.a, member_phase::failed);
  story.pass(3s);
  REQUIRE(story.view().phase == run_phase::stopping);
  cause stopped = run_story::cause_of(*story.b, cause_class::signal, SIGTERM);
  stopped.by_our_stop = true;
  stopped.was_failing = true;
  stopped.text = "ValueError: loss is NaN";
  story.b->state.causes = {stopped};
  story.b->state.ends = {{ending::failed, 2, 2}, {ending::stopped, 3, 3}};
  story.stop_all();
  REQUIRE(story.a->reports.size() == 1);
  CHECK(core::describe(*story.a->reports[0].root_cause) ==
        "b: rank 2 (local rank 0) had not ended yet when it was stopped: ValueError: loss is NaN");
  CHECK(core::exit_code_of(stopped) == 1);
}
