// Nodes whose health check has found something: DESIGN.md, rule 14.
#include "tests/support/catch.hpp"
#include "tests/support/restart_story.hpp"

#include <csignal>
#include <string>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

const std::string ill = "GPU 3 needs a reset";

// a and b are in the round; b's worker fails, and its health check finds something.
struct unhealthy_story : run_story {
  explicit unhealthy_story(std::uint32_t least, bool has_spare)
      : settings(restarting(least, 2, 0)) {
    settings.spares_max = 1;
    settings.timing.backoff_max = 0s;
    a = &joined("a", settings);
    b = &joined("b", settings);
    start_round();
    if (has_spare) c = &joined("c", settings);
  }
  void fail_b() {
    b->state.unhealthy = ill;
    fail_round(*this, *b, 3);
    pass(1s);
  }
  run_settings settings;
  fake_node* a = nullptr;
  fake_node* b = nullptr;
  fake_node* c = nullptr;
};

}  // namespace

TEST_CASE("a node whose health check finds something gives its place to a spare") {
  unhealthy_story story(2, true);
  story.fail_b();
  CHECK_THAT(story.a->reports.back().text, EndsWith("; without b: " + ill));
  story.start_round();
  CHECK(story.a->wanted.phase == desired_phase::run);
  CHECK(story.c->wanted.phase == desired_phase::run);
  story.pass(1s);
  REQUIRE(story.b->wanted.phase == desired_phase::wait);
  CHECK_THAT(story.b->wanted.text, Contains("this node waits without workers: "));
  CHECK_THAT(story.b->wanted.text, EndsWith("; it sits out until its health check finds nothing (" +
                                            ill + "), or too few other nodes are left"));
  CHECK_THAT(story.why(), Contains("; not taking part: b: " + ill));
}

TEST_CASE("a node that is unhealthy sits out where the minimum allows that") {
  unhealthy_story story(1, false);
  story.fail_b();
  story.start_round();
  CHECK(story.a->wanted.assignment->group_world_size == 1);
  CHECK(story.b->wanted.phase == desired_phase::wait);
}

TEST_CASE("a node that is unhealthy takes part where too few others are here, and that is said") {
  unhealthy_story story(2, false);
  story.fail_b();
  CHECK_THAT(story.a->reports.back().text, !Contains("without b"));
  story.start_round();
  const std::string text =
      "b takes part though its health check says: " + ill + "; without it too few nodes are left";
  CHECK(story.b->wanted.phase == desired_phase::run);
  CHECK_THAT(story.a->wanted.news, Contains(text));
  CHECK_THAT(story.why(), !Contains("not taking part"));

  SECTION("and makes room for a spare after the next failure") {
    fake_node& d = story.joined("d", story.settings);
    story.fail_b();
    story.start_round();
    CHECK(d.wanted.phase == desired_phase::run);
    story.pass(1s);
    CHECK(story.b->wanted.phase == desired_phase::wait);
  }
}

TEST_CASE("a node that sits out steps in when too few others are left") {
  unhealthy_story story(1, false);
  story.fail_b();
  story.start_round();
  story.guardian(*story.a);
  story.pass(3s);
  story.start_round();
  CHECK(story.b->wanted.phase == desired_phase::run);
}

TEST_CASE("a node that is well again is a spare like any other") {
  unhealthy_story story(2, true);
  story.fail_b();
  story.start_round();
  story.pass(1s);
  story.b->state.unhealthy.clear();
  story.say(*story.b);
  CHECK_THAT(story.b->wanted.text, Contains("this node waits as a spare: "));
  CHECK_THAT(story.why(), !Contains("not taking part"));
  story.guardian(*story.c);
  story.stop_all();
  story.pass(3s);
  story.start_round();
  CHECK(story.b->wanted.phase == desired_phase::run);
  CHECK_THAT(story.b->wanted.news, !Contains("health check"));
}

TEST_CASE("all nodes are unhealthy: the first of them run") {
  unhealthy_story story(1, false);
  story.a->state.unhealthy = "/dev/shm is full";
  story.fail_b();
  story.start_round();
  CHECK(story.a->wanted.phase == desired_phase::run);
  CHECK(story.a->wanted.assignment->group_world_size == 1);
  CHECK(story.b->wanted.phase == desired_phase::wait);
}

TEST_CASE("a node that says it is unhealthy while its round runs goes on with it") {
  unhealthy_story story(1, false);
  story.b->state.unhealthy = ill;
  story.say(*story.b);
  story.pass(5s);
  CHECK(story.view().phase == run_phase::running);
  CHECK(story.b->wanted.phase == desired_phase::run);
}

TEST_CASE("an unhealthy node that leaves is not named any more") {
  unhealthy_story story(1, false);
  story.fail_b();
  story.start_round();
  SECTION("asked to") {
    story.ask_to_leave(*story.b, SIGTERM);
  }
  SECTION("lost") {
    story.disconnect(*story.b);
    story.pass(60s, {story.b});
  }
  story.pass(1s);
  CHECK_THAT(story.why(), !Contains("not taking part"));
}

TEST_CASE("unhealthy nodes of which a daemon that was started again hears do not hold up a run") {
  run_story story;
  run_settings settings = restarting(2, 2, 0);
  fake_node& a = story.node("a", settings);
  a.state.unhealthy = ill;
  story.connect(a);
  story.joined("b", settings);
  story.pass(2s);
  story.start_round();
  CHECK(a.wanted.phase == desired_phase::run);
}
