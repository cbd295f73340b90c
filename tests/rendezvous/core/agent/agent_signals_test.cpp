#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

TEST_CASE("the first signal is told to the daemon and passed to the workers with drain_grace") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP, SIGQUIT);
  agent_story story;
  story.run_as_member();
  story.forget();
  story.tell(signal_received{signal});
  CHECK(story.sent.draining);
  CHECK(story.sent.signal == signal);
  CHECK(story.sent.phase == member_phase::stopping);
  REQUIRE(story.all<stop_workers>().size() == 1);
  CHECK(story.all<stop_workers>()[0].signal == signal);
  CHECK(story.all<stop_workers>()[0].is_ordinary);
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
  agent_story story;
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
  agent_story story;
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
  agent_story story;
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
  agent_story story;
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
  agent_story story;
  story.run_as_member();
  story.tell(signal_received{SIGTERM});
  story.forget();
  story.assign(2, 1, 2);
  story.workers_end_by_signal(SIGTERM);
  CHECK_FALSE(story.did<dial_tether>());
  CHECK(story.sent.phase == member_phase::stopped);
}

TEST_CASE("a signal while the leader prepares or dials ends without a worker") {
  agent_story story;
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

TEST_CASE("a worker that ends by a signal may have been sent it with its agent") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP, SIGQUIT);
  agent_story story;
  story.run_as_member();
  const std::size_t statuses = story.statuses;
  SECTION("the worker is noticed first") {
    story.worker_ends_by(0, signal);
    CHECK(story.statuses == statuses);
    story.pass(50ms);
    story.worker_ends_by(1, signal);
    CHECK(story.sent.phase != member_phase::succeeded);
    story.pass(49ms);
    CHECK(story.sent.causes.empty());
    story.tell(signal_received{signal});
  }
  SECTION("the agent is noticed first") {
    story.tell(signal_received{signal});
    story.worker_ends_by(0, signal);
    story.worker_ends_by(1, signal);
  }
  SECTION("the agent is noticed first, but the worker had died before") {
    story.pass(20ms);
    story.tell(signal_received{signal});
    story.worker_ends_by(0, signal, 10ms);
    story.worker_ends_by(1, signal, 10ms);
  }
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.draining);
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].by_our_stop);
}

TEST_CASE("a worker that a signal ended alone is a failure once the agent's own has not come") {
  agent_story story;
  story.run_as_member();
  const time_point ended = story.now();
  story.worker_ends_by(0, SIGTERM);
  SECTION("while the other one runs") {
    story.pass(100ms);
    CHECK(story.sent.phase == member_phase::failed);
  }
  SECTION("and it was the last one") {
    story.worker_succeeds(1);
    story.pass(100ms);
    CHECK(story.sent.phase == member_phase::failed);
  }
  SECTION("when the daemon's stop comes first: down is only said when that is known") {
    story.worker_succeeds(1);
    story.pass(30ms);
    story.want(desired_phase::stop, 1);
    CHECK(story.sent.phase == member_phase::stopping);
    story.pass(70ms);
    CHECK(story.sent.phase == member_phase::stopped);
  }
  SECTION("when a fence comes: nothing is waited for") {
    story.worker_succeeds(1);
    story.want(desired_phase::fence, 1);
    CHECK(story.sent.phase == member_phase::joined);
    return;
  }
  REQUIRE(story.sent.causes.size() == 1);
  CHECK_FALSE(story.sent.causes[0].by_our_stop);
  CHECK(story.sent.causes[0].code == SIGTERM);
  CHECK(story.sent.causes[0].age == story.now() - ended);
}

TEST_CASE("the daemon's stop and then the agent's own signal: the worker was drained") {
  agent_story story;
  story.run_as_member();
  story.worker_ends_by(0, SIGTERM);
  story.worker_ends_by(1, SIGTERM);
  story.want(desired_phase::stop, 1);
  CHECK(story.sent.phase == member_phase::stopping);
  story.tell(signal_received{SIGTERM});
  CHECK(story.sent.phase == member_phase::stopped);
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].by_our_stop);
}

TEST_CASE("another end of a worker is told at once, whatever others are waited for") {
  agent_story story;
  story.run_as_member();
  story.worker_ends_by(0, SIGTERM);
  story.worker_fails(1, 3);
  CHECK(story.sent.phase == member_phase::failed);
  CHECK(story.sent.causes.size() == 1);
  story.pass(100ms);
  CHECK(story.sent.causes.size() == 2);
}
