// The check of this node while a failed round stops: DESIGN.md, rule 14.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

#include <csignal>

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::agent_story;

namespace {

core::agent_options checking() {
  core::agent_options options = agent_story::default_options();
  options.checks_node = true;
  return options;
}

}  // namespace

TEST_CASE("a node is checked once while a failed round stops, and says what was found") {
  agent_story story(checking());
  story.run_as_member();
  story.worker_fails(0);
  REQUIRE(story.all<check_node>().size() == 1);
  CHECK(story.all<check_node>().front().round == 1);
  story.want(desired_phase::stop, 1);
  CHECK(story.all<check_node>().size() == 1);
  story.worker_ends_by(1, SIGTERM);

  SECTION("it says that it has stopped when the answer is there") {
    CHECK(story.sent.phase == member_phase::stopping);
    story.pass(3s);
    CHECK(story.sent.phase == member_phase::stopping);
    story.tell(node_checked{1, "GPU 3 needs: Reset"});
    CHECK(story.sent.phase == member_phase::stopped);
    CHECK(story.sent.unhealthy == "GPU 3 needs: Reset");
    story.tell(node_checked{0, ""});
    story.pass(1s);
    CHECK(story.sent.unhealthy.empty());
  }
  SECTION("a signal does not wait for it") {
    story.tell(signal_received{SIGTERM});
    CHECK(story.sent.phase == member_phase::stopped);
  }
  SECTION("nor does a fence") {
    story.want(desired_phase::fence, 1);
    CHECK(story.sent.phase == member_phase::joined);
    story.tell(node_checked{1, ""});
    CHECK(story.sent.phase == member_phase::joined);
  }
}

TEST_CASE("an answer that is there before the workers have ended holds up nothing") {
  agent_story story(checking());
  story.run_as_member();
  story.want(desired_phase::stop, 1);
  REQUIRE(story.did<check_node>());
  story.tell(node_checked{1, ""});
  story.workers_end_by_signal(SIGTERM);
  CHECK(story.sent.phase == member_phase::stopped);
}

TEST_CASE("the answer of an older round is none of this one's") {
  agent_story story(checking());
  story.run_as_member();
  story.want(desired_phase::stop, 1);
  story.workers_end_by_signal(SIGTERM);
  story.tell(node_checked{7, ""});
  CHECK(story.sent.phase == member_phase::stopping);
  story.tell(node_checked{1, ""});
  CHECK(story.sent.phase == member_phase::stopped);
}

TEST_CASE("a node that is asked to leave, or whose workers succeed, is not checked") {
  agent_story story(checking());
  story.run_as_member();
  SECTION("asked") {
    story.tell(signal_received{SIGTERM});
  }
  SECTION("well") {
    story.worker_succeeds(0);
  }
  CHECK_FALSE(story.did<check_node>());
}

TEST_CASE("each round has its check") {
  agent_story story(checking());
  story.run_as_member();
  story.want(desired_phase::stop, 1);
  story.workers_end_by_signal(SIGTERM);
  story.tell(node_checked{1, ""});
  story.forget();
  story.assign(2, 1, 2);
  story.reach_leader();
  story.tell(workers_started{2});
  story.worker_fails(0);
  CHECK(story.all<check_node>().size() == 1);
}

TEST_CASE("where no node checks its health nothing is waited for") {
  agent_story story;
  story.run_as_member();
  story.want(desired_phase::stop, 1);
  story.workers_end_by_signal(SIGTERM);
  CHECK_FALSE(story.did<check_node>());
  CHECK(story.sent.phase == member_phase::stopped);
}
