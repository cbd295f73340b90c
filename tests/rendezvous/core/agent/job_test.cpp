// Which job an agent claims to belong to: the one that opened its instance, once it has been told.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::tests;

namespace {

const started_job own{"b2", "train.py", "10:31", "node-b"};
const started_job opened{"a1", "train.py", "10:30", "node-a"};

struct told_story : agent_story {
  told_story() : agent_story(with_own_job()) {}

  static core::agent_options with_own_job() {
    core::agent_options options = default_options();
    options.greeting.job = own;
    return options;
  }
  void tell_phase(desired_phase phase, const std::optional<started_job>& job) {
    desired value = order(phase, 0);
    value.job = job;
    say(value);
  }
  std::optional<started_job> says_again() {
    lose_daemon();
    connect();
    return greeted.job;
  }
};

}  // namespace

TEST_CASE("before a daemon has named an instance a node says what it starts itself") {
  told_story story;
  story.connect();
  CHECK(story.greeted.job == own);
  CHECK(story.says_again() == own);
}

TEST_CASE("a node of an instance says what that was opened with, also after a fence") {
  told_story story;
  story.connect();
  story.tell_phase(desired_phase::wait, opened);
  CHECK(story.says_again() == opened);
  story.tell_phase(desired_phase::fence, opened);
  CHECK(story.says_again() == opened);
}

TEST_CASE("where its daemon did not say so, a node of an instance says nothing") {
  told_story story;
  story.connect();
  story.tell_phase(desired_phase::wait, std::nullopt);
  CHECK(story.says_again() == std::nullopt);
}

TEST_CASE("a daemon that a node opens belongs to the job that its instance was opened with") {
  told_story story;
  story.connect();
  const auto job_of_next_daemon = [&] {
    story.lose_daemon();
    const std::optional<started_job> job = story.all<core::connect_daemon>().back().job;
    story.connect();
    return job;
  };
  CHECK(job_of_next_daemon() == std::nullopt);  // its own
  story.tell_phase(desired_phase::wait, opened);
  CHECK(job_of_next_daemon() == opened);
}
