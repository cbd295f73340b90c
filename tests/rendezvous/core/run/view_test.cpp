// What people are shown of a run.
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"

#include <algorithm>
#include <csignal>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

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
  SECTION("nobody knows where it is") {
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
  CHECK(story.why().find("nodes that run a round have come") == 0);
  story.disconnect(*story.members[0]);
  story.pass(3s);
  story.joined("a", nodes_of(1, 1));
  CHECK(story.why().find("the daemon has just started") == 0);
}

TEST_CASE("who is in no instance says nothing of the restarts of one that is found") {
  orphans_story story(2);
  fake_node& newcomer = story.node("new", story.settings);
  newcomer.state.restarts_used = 3;
  story.connect(newcomer);
  for (fake_node* const who : story.members)
    story.connect(*who);
  REQUIRE(story.view().phase == run_phase::running);
  CHECK(story.view().restarts_used == 2);
}

TEST_CASE("who is refused is noted, at its hello and later") {
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

TEST_CASE("who waits is told when a node that waited too is fenced") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(3, 3));
  fake_node& b = story.joined("b", nodes_of(3, 3));
  story.beat_all();
  CHECK(a.wanted.text == "waiting for 1 of 3 nodes; here: a (2 workers), b (2 workers)");
  // On another connection, before its old one has ended.
  b.state.instance = story.view().instance;
  b.state.round = 9;
  b.state.phase = member_phase::running;
  story.connect(b);
  REQUIRE(b.wanted.phase == desired_phase::fence);
  story.say(a);
  CHECK(a.wanted.text.find("waiting for 2 of 3 nodes; here: a (2 workers)") == 0);
}

TEST_CASE("who cannot be chosen and waits is told when the reason changes, from the first on") {
  run_story story(restarted());
  fake_node& stuck = story.node("a", nodes_of(2, 2));
  stuck.state.unkillable = 1;
  story.connect(stuck);
  REQUIRE(stuck.wanted.phase == desired_phase::wait);
  story.joined("b", nodes_of(2, 2));
  story.say(stuck);
  CHECK(stuck.wanted.text.find("; here: b (2 workers)") != std::string::npos);
}

TEST_CASE("who waits behind a stop is told for whom, also when that changes") {
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
  told("c cannot be reached: waiting until its workers must be gone");
}
