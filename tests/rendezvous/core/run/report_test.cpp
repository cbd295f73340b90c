// Rule 11: the report of a round that is over; and what is shown of a run at any time.
#include "rendezvous/core/messages/cause.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"

#include <algorithm>
#include <csignal>
#include <stdexcept>

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

TEST_CASE("every member gets the same report, before anything follows") {
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

TEST_CASE("a lost node's ranks are reported as lost, and a node that comes back gets the report") {
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

TEST_CASE(
    "a worker that said why it fails before it was stopped is the cause of those that lost it") {
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

// What is shown of a run.
namespace {

member_phase shown(const run_story& story, const fake_node& who) {
  for (const core::member_view& one : story.view().members) {
    if (one.node == who.greeting.node) return one.phase;
  }
  throw std::logic_error("no node " + who.greeting.node + " is shown");
}

}  // namespace

TEST_CASE("a member that was lost is shown as lost while its round stops") {
  pair_story story;
  SECTION("it died for certain") {
    story.guardian(*story.b);
  }
  SECTION("it cannot be reached") {
    story.disconnect(*story.b);
    story.pass(2s);
  }
  SECTION("the round was being stopped already") {
    story.fail(*story.a, 3);
    story.disconnect(*story.b);
    story.pass(2s);
  }
  REQUIRE(story.view().phase == run_phase::stopping);
  CHECK(shown(story, *story.b) == member_phase::lost);
}

TEST_CASE("the cause that is shown is that of the newest end") {
  SECTION("a run that gathers is stopped by a person") {
    run_story story;
    story.joined("a", nodes_of(2, 2));
    story.step(core::operator_stop_requested{"maintenance"});
    REQUIRE(story.view().root_cause);
    CHECK(story.view().root_cause->kind == cause_class::operator_stop);
  }
  SECTION("a run that restarted once has succeeded") {
    pair_story story;
    story.fail(*story.b, 3);
    story.stop_all();
    story.start_round();
    REQUIRE(story.view().root_cause);
    story.say(*story.a, member_phase::succeeded);
    story.say(*story.b, member_phase::succeeded);
    CHECK(story.view().exit_code == 0);
    CHECK_FALSE(story.view().root_cause);
  }
}

TEST_CASE("a claimant that has gone is not what a new daemon is said to wait for") {
  orphans_story story(2);
  story.connect(*story.members[0]);
  CHECK(story.why().find("nodes have come that are in a round of which") == 0);
  story.disconnect(*story.members[0]);
  story.pass(3s);
  story.joined("a", nodes_of(1, 1));
  CHECK(story.why().find("the daemon has just started") == 0);
}

TEST_CASE("a node in no instance says nothing about the restarts of one that is found") {
  orphans_story story(2);
  fake_node& newcomer = story.node("new", story.settings);
  newcomer.state.restarts_used = 3;
  story.connect(newcomer);
  for (fake_node* const who : story.members)
    story.connect(*who);
  REQUIRE(story.view().phase == run_phase::running);
  CHECK(story.view().restarts_used == 2);
}

TEST_CASE("a refused node is noted, at its hello and later") {
  run_story story(restarted());
  fake_node& old = story.node("old", nodes_of(2, 2));
  old.greeting.protocol = 99;
  story.connect(old);
  REQUIRE_FALSE(story.notes.empty());
  CHECK(story.notes.back().find("refused old: of the agent protocol this node speaks ") == 0);
  story.joined("a", nodes_of(2, 2));
  story.joined("other", nodes_of(1, 4));
  story.joined("b", nodes_of(2, 2));
  story.pass(10s);
  const auto is_noted = [](const std::string& text) {
    return text.find("refused other: other has nnodes 1:4, the run 2:2: ") == 0;
  };
  CHECK(std::count_if(story.notes.begin(), story.notes.end(), is_noted) == 1);
}

TEST_CASE("a waiting node is told when another one that waited is fenced") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(3, 3));
  fake_node& b = story.joined("b", nodes_of(3, 3));
  story.beat_all();
  CHECK(a.wanted.text == "waiting for 1 of 3 nodes; here: a (2 workers), b (2 workers)");
  // It comes on another connection before its old one has ended.
  b.state.instance = story.view().instance;
  b.state.round = 9;
  b.state.phase = member_phase::running;
  story.connect(b);
  REQUIRE(b.wanted.phase == desired_phase::fence);
  story.say(a);
  CHECK(a.wanted.text.find("waiting for 2 of 3 nodes; here: a (2 workers)") == 0);
}

TEST_CASE("a waiting node that cannot be chosen is told whenever the reason changes") {
  run_story story(restarted());
  fake_node& stuck = story.node("a", nodes_of(2, 2));
  stuck.state.unkillable = 1;
  story.connect(stuck);
  REQUIRE(stuck.wanted.phase == desired_phase::wait);
  story.joined("b", nodes_of(2, 2));
  story.say(stuck);
  CHECK(stuck.wanted.text.find("; here: b (2 workers)") != std::string::npos);
}

TEST_CASE("a node that waits for a stop is told for which members, also when they change") {
  run_settings settings = nodes_of(1, 3);
  settings.spares_max = 1;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  fake_node& c = story.joined("c", settings);
  story.start_round();
  fake_node& spare = story.joined("spare", settings);
  story.disconnect(c);
  story.pass(3s);  // it is lost
  const auto told = [&](const std::string& words) {
    story.say(spare);
    INFO(spare.wanted.text);
    CHECK(spare.wanted.text.find(words) != std::string::npos);
  };
  REQUIRE(story.view().phase == run_phase::stopping);
  told("waiting for a, b");
  story.say(a, member_phase::stopped);
  story.say(b, member_phase::stopped);
  REQUIRE(story.view().phase == run_phase::stopping);
  told("c cannot be reached: waiting until its workers must have ended");
}
