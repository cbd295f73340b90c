#include "tests/support/catch.hpp"
#include "tests/support/member_story.hpp"

#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::test::member_story;

TEST_CASE("the first signal is told to the daemon and passed to the workers with drain_grace") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP, SIGQUIT);
  member_story story;
  story.run_as_member();
  story.forget();
  story.tell(signal_received{signal});
  CHECK(story.sent.draining);
  CHECK(story.sent.signal == signal);
  CHECK(story.sent.phase == member_phase::stopping);
  REQUIRE(story.all<stop_workers>().size() == 1);
  CHECK(story.all<stop_workers>()[0].signal == signal);
  story.pass(story.timing.drain_grace - 1ms);
  CHECK_FALSE(story.did<kill_workers>());
  story.pass(1ms);
  CHECK(story.did<kill_workers>());
  story.workers_end_by_signal(SIGKILL);
  CHECK_FALSE(story.left);  // the daemon says with which code
  story.want(desired_phase::close, 1);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 0);
}

TEST_CASE("the second signal kills, and the node leaves when the workers are reaped") {
  member_story story;
  story.run_as_member();
  story.tell(signal_received{SIGINT});
  story.forget();
  story.tell(signal_received{SIGINT});
  CHECK(story.did<kill_workers>());
  CHECK_FALSE(story.left);
  SECTION("with a goodbye") {
    story.workers_end_by_signal(SIGKILL);
    REQUIRE(story.left);
    CHECK(story.left->exit_code == 128 + SIGINT);
    CHECK(story.said_goodbye());
  }
  SECTION("or after kill_wait, without one") {
    story.pass(story.timing.kill_wait);
    REQUIRE(story.left);
    CHECK(story.left->exit_code == 128 + SIGINT);
    CHECK_FALSE(story.said_goodbye());
  }
}

TEST_CASE("a signal outside a round leaves at once") {
  member_story story;
  SECTION("before the daemon answers") {
    story.tell(signal_received{SIGTERM});
    CHECK_FALSE(story.said_goodbye());
  }
  SECTION("while waiting") {
    story.connect();
    story.want(desired_phase::wait, 0);
    story.tell(signal_received{SIGTERM});
    CHECK(story.said_goodbye());
  }
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 128 + SIGTERM);
}

TEST_CASE("a signal with no daemon stops the workers and leaves by itself") {
  member_story story;
  story.run_as_member();
  story.lose_daemon();
  story.pass(60s);
  story.forget();
  story.tell(signal_received{SIGTERM});
  CHECK(story.did<stop_workers>());
  CHECK_FALSE(story.left);
  story.workers_end_by_signal(SIGTERM);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 128 + SIGTERM);
}

TEST_CASE("a daemon that never says close is not waited for without end") {
  member_story story;
  story.run_as_member();
  story.tell(signal_received{SIGTERM});
  story.workers_end_by_signal(SIGTERM);
  CHECK_FALSE(story.left);
  story.pass(120s);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 128 + SIGTERM);
  CHECK(story.said_goodbye());
}

TEST_CASE("a draining node enters no further round") {
  member_story story;
  story.run_as_member();
  story.tell(signal_received{SIGTERM});
  story.forget();
  story.assign(2, 1, 2);
  story.workers_end_by_signal(SIGTERM);
  CHECK_FALSE(story.did<dial_tether>());
  CHECK(story.sent.phase == member_phase::stopped);
}

TEST_CASE("a signal while the leader prepares or dials ends without a worker") {
  member_story story;
  story.connect();
  SECTION("preparing") {
    story.prepare(1, 2);
    story.tell(signal_received{SIGINT});
    CHECK(story.did<close_service>());
  }
  SECTION("dialling") {
    story.assign(1, 1, 2);
    story.tell(signal_received{SIGINT});
    CHECK(story.did<drop_tether>());
  }
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.draining);
  CHECK_FALSE(story.did<start_workers>());
}
