// When workers that have left a round, and wait for another one, are ended without it. They are
// workers of no round, so nothing else that this machine does to workers reaches them.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

namespace {

// All workers have left round 1, as workers do that can live on.
agent_story with_survivors() {
  agent_story story;
  story.run_as_member();
  story.want(desired_phase::stop, 1);
  story.workers_end_by_signal(SIGTERM);
  REQUIRE(story.sent.phase == member_phase::stopped);
  REQUIRE_FALSE(story.did<end_survivors>());
  return story;
}

}  // namespace

TEST_CASE("survivors of a node that is fenced end") {
  agent_story story = with_survivors();
  story.want(desired_phase::fence, 2);
  CHECK(story.all<end_survivors>().size() == 1);
}

TEST_CASE("survivors of one instance are none of another's") {
  agent_story story = with_survivors();
  desired other = story.order(GENERATE(desired_phase::wait, desired_phase::stop), 1);
  other.instance = 78;
  other.seq += 10;
  story.say(other);
  CHECK(story.all<end_survivors>().size() == 1);
}

TEST_CASE("survivors of a round of which some workers still end go with them at a fence") {
  agent_story story;
  story.run_as_member();
  story.want(desired_phase::stop, 1);
  story.worker_fails(0);
  story.want(desired_phase::fence, 2);
  CHECK(story.did<end_survivors>());
  CHECK(story.did<kill_workers>());
}

TEST_CASE("survivors are killed where a second signal kills at once") {
  agent_story story = with_survivors();
  story.tell(signal_received{SIGTERM});
  CHECK_FALSE(story.did<end_survivors>());
  story.tell(signal_received{SIGTERM});
  CHECK(story.did<end_survivors>());
}

TEST_CASE("survivors live on into the next round, however long it takes to begin") {
  agent_story story = with_survivors();
  story.want(desired_phase::wait, 1);
  story.pass(5min);
  story.assign(2, 1, 2);
  story.reach_leader();
  CHECK(story.did<start_workers>());
  CHECK_FALSE(story.did<end_survivors>());
}

TEST_CASE("the order to end workers carries their grace") {
  agent_story story;
  story.timing.stop_grace = 7s;
  story.run_as_member();
  desired order = story.order(desired_phase::stop, 1);
  order.grace = GENERATE(0s, 3s);
  story.say(order);
  REQUIRE(story.all<stop_workers>().size() == 1);
  CHECK(story.all<stop_workers>()[0].grace == (order.grace == 0s ? 7s : order.grace));
}
