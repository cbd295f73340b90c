// A failure that is the effect of another one: DESIGN.md, rule 4.
#include "rendezvous/core/messages/cause.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

TEST_CASE("an effect ends the round when its cause had the time to be told") {
  pair_story story;
  cause effect = run_story::cause_of(*story.a, cause_class::exit);
  effect.code = 1;
  effect.is_secondary = true;
  effect.text = "Connection closed by peer";
  story.a->state.causes = {effect};
  story.say(*story.a, member_phase::failed);
  CHECK(story.view().phase == run_phase::running);
  SECTION("nobody tells it") {
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
  SECTION("where no worker is left, nobody is waited for") {
    story.pass(100ms);
    story.a->state.ends = {{ending::effect, 0, 1}};
    story.say(*story.a);
    CHECK(story.view().phase == run_phase::running);
    effect.node = "b";
    story.b->state.causes = {effect};
    story.b->state.ends = {{ending::effect, 2, 3}};
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

TEST_CASE("a node that is lost in the grace is the cause, and ends it") {
  run_settings settings = nodes_of(2, 2);
  settings.timing.failure_grace = 30s;
  pair_story story(settings);
  cause effect = run_story::cause_of(*story.a, cause_class::exit);
  effect.is_secondary = true;
  story.a->state.causes = {effect};
  story.say(*story.a, member_phase::failed);
  story.disconnect(*story.b);
  story.pass(3s);
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(story.a->wanted.text == "b was lost: connection lost, not back within 2 s");
}

TEST_CASE("without failure_grace an effect ends the round at once") {
  run_settings settings = nodes_of(2, 2);
  settings.timing.failure_grace = 0s;
  pair_story story(settings);
  cause effect = run_story::cause_of(*story.a, cause_class::exit);
  effect.is_secondary = true;
  story.a->state.causes = {effect};
  story.say(*story.a, member_phase::failed);
  CHECK(story.view().phase == run_phase::stopping);
}
