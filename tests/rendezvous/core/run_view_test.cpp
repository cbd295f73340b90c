// What people are shown of a run.
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"

#include <csignal>

using namespace ddprun;
using namespace ddprun::test;
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
    REQUIRE(story.view().first_cause);
    CHECK(story.view().first_cause->kind == cause_class::operator_stop);
  }
  SECTION("a run that restarted once has succeeded") {
    pair_story story;
    story.fail(*story.b, 3);
    story.stop_all();
    story.start_round();
    REQUIRE(story.view().first_cause);
    story.say(*story.a, member_phase::succeeded);
    story.say(*story.b, member_phase::succeeded);
    CHECK(story.view().exit_code == 0);
    CHECK_FALSE(story.view().first_cause);
  }
}
