// Workers that are busy when they are asked to end.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::agent_story;

TEST_CASE("after a failure elsewhere workers that are at something have up to 30 s to end") {
  core::agent_options options = agent_story::default_options();
  options.spares_busy_workers = true;
  agent_story story(options);
  story.run_as_member();
  desired order = story.order(desired_phase::stop, 1);
  const auto works_for = [&story](duration time) {
    for (duration passed = 0s; passed < time; passed += 1s) {
      story.tell(workers_busy{1});
      story.pass(1s);
    }
  };
  SECTION("and no more") {
    story.say(order);
    works_for(29s);
    CHECK_FALSE(story.did<kill_workers>());
    works_for(1s);
    CHECK(story.did<kill_workers>());
  }
  SECTION("no longer than they are") {
    story.say(order);
    works_for(10s);
    story.pass(busy_word_counts - 1s - 1ms);
    CHECK_FALSE(story.did<kill_workers>());
    story.pass(1ms);
    CHECK(story.did<kill_workers>());
  }
  SECTION("but stop_grace in any case") {
    story.say(order);
    story.tell(workers_busy{1});
    story.pass(story.timing.stop_grace - 1ms);
    CHECK_FALSE(story.did<kill_workers>());
    story.pass(1ms);
    CHECK(story.did<kill_workers>());
  }
  SECTION("what a signal grants is all that there is after one") {
    order.grace = 1s;
    story.say(order);
    works_for(1s);
    CHECK(story.did<kill_workers>());
  }
  SECTION("a signal here ends it") {
    story.timing.drain_grace = 30s;
    story.say(order);
    story.tell(signal_received{15});
    works_for(5s);
    CHECK(story.did<kill_workers>());
  }
}

TEST_CASE(
    "workers that are at something have stop_grace where that was typed, or less is granted") {
  core::agent_options options = agent_story::default_options();
  const bool is_typed = GENERATE(true, false);
  options.spares_busy_workers = !is_typed;
  agent_story story(options);
  if (!is_typed) story.timing.drain_grace = 2s;
  story.run_as_member();
  story.want(desired_phase::stop, 1);
  for (int second = 0; second < 5; ++second) {
    CHECK_FALSE(story.did<kill_workers>());
    story.tell(workers_busy{1});
    story.pass(1s);
  }
  CHECK(story.did<kill_workers>());
}
