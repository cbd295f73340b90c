// Why a node leaves, if its exit code alone does not say, because a run may fail with any code.
#include "rendezvous/base/exit_codes.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/odd_story.hpp"

#include <csignal>

using namespace ddprun;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

constexpr int sigterm_code = 128 + SIGTERM;

void close_with(odd_story& story, int exit_code) {
  desired order = story.order(desired_phase::close, 1);
  order.exit_code = exit_code;
  story.say(order);
}

leave_reason reason_in(const odd_story& story) {
  REQUIRE(story.left);
  return story.left->why;
}

}  // namespace

TEST_CASE(
    "a run that ends with the code of a signal is over, unless the signal came to this node") {
  odd_story story;
  SECTION("no signal has come here") {
    close_with(story, sigterm_code);
    story.workers_end_by_signal(SIGTERM);
    CHECK(reason_in(story) == leave_reason::run_over);
  }
  SECTION("every node was asked to leave") {
    story.tell(signal_received{SIGTERM});
    story.workers_end_by_signal(SIGTERM);
    close_with(story, sigterm_code);
    CHECK(reason_in(story) == leave_reason::drained);
  }
}

TEST_CASE("a node that was drained has left, however it has ended") {
  odd_story story;
  story.tell(signal_received{SIGTERM});
  SECTION("the run goes on without it") {
    story.workers_end_by_signal(SIGTERM);
    close_with(story, 0);
    CHECK(reason_in(story) == leave_reason::drained);
  }
  SECTION("a second signal") {
    story.tell(signal_received{SIGTERM});
    story.workers_end_by_signal(SIGKILL);
    CHECK(reason_in(story) == leave_reason::drained);
  }
  SECTION("no daemon answers") {
    story.daemon_acks = false;
    story.workers_end_by_signal(SIGTERM);
    for (int steps = 0; steps < 600 && !story.left; ++steps)
      story.pass(1s);
    CHECK(reason_in(story) == leave_reason::drained);
  }
  SECTION("the run fails meanwhile") {
    story.workers_end_by_signal(SIGTERM);
    close_with(story, 7);
    CHECK(reason_in(story) == leave_reason::run_over);
  }
}

TEST_CASE("a node that is refused is told apart from a run that is") {
  odd_story story;
  SECTION("this node") {
    story.say(refused{refused_exit_code, "nnodes is 1:1 here and 2:2 on the others"});
    story.workers_end_by_signal(SIGKILL);
    CHECK(reason_in(story) == leave_reason::refused);
  }
  SECTION("its whole job") {
    story.say(refused{displaced_exit_code, "another job has taken this endpoint"});
    story.workers_end_by_signal(SIGKILL);
    CHECK(reason_in(story) == leave_reason::run_over);
  }
}

TEST_CASE("a node that gets no answer has not met the others") {
  odd_story story;
  story.lose_daemon();
  story.leader_acks = false;
  for (int steps = 0; steps < 600 && story.machine().phase() != member_phase::stopped; ++steps) {
    story.pass(1s);
    if (story.did<kill_workers>()) break;
  }
  story.workers_end_by_signal(SIGKILL);
  story.pass(story.timing.join_timeout);
  CHECK(reason_in(story) == leave_reason::unmet);
}
