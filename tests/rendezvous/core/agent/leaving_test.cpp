// When exactly a node stops by itself, leaves, or waits for a daemon, also if its loop was late.
#include "tests/support/catch.hpp"
#include "tests/support/odd_story.hpp"

#include <algorithm>
#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using namespace ddprun::tests;

TEST_CASE(
    "without a daemon a node whose worker failed stops one isolation limit after the first "
    "failure, or after the daemon's last word") {
  odd_story story;
  const duration limit = story.timing.isolation_limit * 98 / 100;
  SECTION("the failure") {
    story.lose_daemon();
    story.pass(100s);
    story.worker_fails(0);
    story.pass(3s);
    story.worker_fails(1);
    CHECK(story.machine().phase() == member_phase::failed);
    const std::size_t changes = story.all<drop_tether>().size();
    story.pass(limit - 3s - 1ms);
    CHECK(story.machine().phase() == member_phase::failed);
    story.pass(1ms);
    CHECK(story.machine().phase() == member_phase::stopped);
    CHECK(story.all<drop_tether>().size() == changes + 1);
  }
  SECTION("one worker lives: it is asked, with the grace of a stop") {
    story.lose_daemon();
    story.pass(100s);
    story.worker_fails(0);
    CHECK(until<stop_workers>(story) == limit);
    CHECK(until<kill_workers>(story) == 5300ms);
  }
  SECTION("what ends at that stop is no cause") {
    story.lose_daemon();
    story.worker_fails(0);
    until<stop_workers>(story);
    story.worker_fails(1, 143);
    CHECK(story.machine().phase() == member_phase::stopped);
    story.connect();
    REQUIRE(story.sent.causes.size() == 1);
    CHECK(story.sent.causes[0].code == 3);
  }
  SECTION("the word") {
    story.pass(500ms);
    story.worker_fails(0);
    story.pass(20s);  // it gets acks all the time
    CHECK_FALSE(story.did<stop_workers>());
    story.lose_daemon();
    const duration waited = until<stop_workers>(story);
    CHECK(waited <= limit);
    CHECK(waited >= limit - story.timing.heartbeat_interval);
  }
}

TEST_CASE("isolation is the cause of an end only if the end was not asked for") {
  odd_story story;
  story.pass(2s);
  story.daemon_acks = false;
  story.leader_acks = false;
  desired order = story.order(desired_phase::stop, 1);
  order.grace = 60s;
  story.say(order);
  story.pass(story.timing.isolation_limit);
  REQUIRE(story.did<kill_workers>());
  story.workers_end_by_signal(SIGKILL);
  story.connect();
  for (const cause& one : story.sent.causes)
    CHECK(one.kind != cause_class::node_lost);
}

TEST_CASE("a leader that is never answered while it prepares gives up by itself") {
  agent_story story;
  story.daemon_acks = false;
  story.connect();
  story.pass(1s);
  desired order = story.order(desired_phase::prepare, 1);
  order.group_world_size = GENERATE(1U, 2U);
  story.say(order);
  story.tell(service_opened{1, 29500, 29501, {}});
  const time_point began = story.now();
  while (story.machine().phase() == member_phase::preparing && story.now() < began + 30s)
    story.pass(1ms);
  CHECK(story.now() == began + story.timing.isolation_limit * 98 / 100);
  CHECK(story.machine().phase() == member_phase::stopped);
}

TEST_CASE("join_timeout counts from when there was nothing left but to wait for a daemon") {
  odd_story story;
  story.lose_daemon();
  story.pass(300s);
  story.leader_acks = false;
  until<kill_workers>(story);
  REQUIRE(story.did<kill_workers>());
  story.workers_end_by_signal(SIGKILL);
  story.pass(story.timing.join_timeout - 1ms);
  CHECK_FALSE(story.left);
  story.pass(1ms);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == unmet_exit_code);
}

TEST_CASE("a daemon that says no close is waited for as long as the others may take to stop") {
  odd_story story;
  const timers& timing = story.timing;
  story.tell(signal_received{SIGTERM});
  story.pass(1s);
  story.workers_end_by_signal(SIGTERM);
  const duration patience =
      timing.drain_grace + timing.kill_wait + timing.node_timeout + 2 * timing.isolation_limit;
  SECTION("one that answers") {
    story.pass(patience - 1ms);
    CHECK_FALSE(story.left);
    story.pass(1ms);
    CHECK(story.left);
  }
  SECTION("one that has stopped to answer: less long") {
    story.daemon_acks = false;
    const duration waited = until<leave>(story);
    CHECK(waited == timing.isolation_limit * 98 / 100);
  }
  SECTION("a loop that was late: as much longer") {
    story.freeze(3s);
    story.tell(agent_loop_was_late{3s});
    story.pass(patience - 1ms);
    CHECK_FALSE(story.left);
    story.pass(1ms);
    CHECK(story.left);
  }
}

TEST_CASE("a node that has done its part stays for the close when it is asked to leave") {
  agent_story story;
  story.run_as_leader(2);
  story.worker_succeeds(0);
  story.worker_succeeds(1);
  story.forget();
  story.tell(signal_received{SIGTERM});
  CHECK(story.sent.draining);
  CHECK(story.sent.phase == member_phase::succeeded);
  CHECK_FALSE(story.did<close_service>());
  CHECK_FALSE(story.did<drop_members>());
  story.pass_with_members(30s);
  CHECK_FALSE(story.left);
  story.want(desired_phase::close, 1);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 0);
}

TEST_CASE("a signal between rounds is told, and the node leaves when the daemon says so") {
  odd_story story;
  story.want(desired_phase::stop, 1);
  story.workers_end_by_signal(SIGTERM);
  story.tell(signal_received{SIGTERM});
  CHECK(story.sent.draining);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK_FALSE(story.left);
  story.pass(10s);
  CHECK_FALSE(story.left);
  story.want(desired_phase::close, 1);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 0);
}

TEST_CASE("a signal takes back what was to come next") {
  odd_story story;
  story.want(desired_phase::wait, 1);  // once the workers are gone
  story.tell(signal_received{SIGTERM});
  story.workers_end_by_signal(SIGTERM);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.draining);
}

TEST_CASE("a signal after close changes nothing; a second one kills") {
  odd_story story;
  desired order = story.order(desired_phase::close, 1);
  order.exit_code = 3;
  story.say(order);
  story.tell(signal_received{SIGTERM});
  CHECK_FALSE(story.sent.draining);
  CHECK_FALSE(story.did<kill_workers>());
  story.tell(signal_received{SIGINT});
  CHECK(story.did<kill_workers>());
  story.workers_end_by_signal(SIGKILL);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 128 + SIGINT);
}

TEST_CASE("a loop that was late extends what runs at this node by that much") {
  odd_story story;
  SECTION("the grace of a stop") {
    story.want(desired_phase::stop, 1);
    story.freeze(6s);
    story.tell(agent_loop_was_late{6s});
    story.tell(agent_time_passed{});
    story.pass(5300ms - 1ms);
    CHECK_FALSE(story.did<kill_workers>());
    story.pass(1ms);
    CHECK(story.did<kill_workers>());
  }
  SECTION("kill_wait") {
    story.want(desired_phase::fence, 1);
    story.freeze(3s);
    story.tell(agent_loop_was_late{3s});
    story.pass(4600ms - 1ms);
    CHECK(story.sent.phase == member_phase::stopping);
    story.pass(1ms);
    CHECK(story.sent.phase == member_phase::stopped);
  }
  SECTION("the silence of the daemon") {
    story.daemon_acks = false;
    story.pass(1s);
    story.freeze(2s);
    story.tell(agent_loop_was_late{2s});
    story.pass(story.timing.isolation_limit / 2 - 1s - 1ms);
    CHECK_FALSE(story.did<disconnect_daemon>());
    story.pass(1ms);
    CHECK(story.did<disconnect_daemon>());
  }
  SECTION("the time to stop by itself after a failure") {
    story.lose_daemon();
    story.pass(100s);
    story.worker_fails(0);
    story.freeze(500ms);
    story.tell(agent_loop_was_late{500ms});
    CHECK(until<stop_workers>(story) == story.timing.isolation_limit * 98 / 100);
  }
  SECTION("join_timeout") {
    agent_story waiting;
    waiting.lose_daemon();
    waiting.freeze(3s);
    waiting.tell(agent_loop_was_late{3s});
    waiting.pass(waiting.timing.join_timeout - 1ms);
    CHECK_FALSE(waiting.left);
    waiting.pass(1ms);
    CHECK(waiting.left);
  }
  SECTION("a member's time to reach its leader") {
    agent_story dialling;
    dialling.connect();
    dialling.assign(1, 1, 2);
    dialling.freeze(3s);
    dialling.tell(agent_loop_was_late{3s});
    dialling.pass(30s - 1ms);
    CHECK(dialling.machine().phase() == member_phase::assigned);
    dialling.pass(1ms);
    CHECK(dialling.machine().phase() == member_phase::failed);
  }
}

TEST_CASE("a loop that was late by a heartbeat asks at once; by nothing, or less, is no news") {
  odd_story story;
  const std::size_t before = story.statuses;
  story.tell(agent_loop_was_late{0s});
  story.tell(agent_loop_was_late{-5s});
  story.tell(agent_loop_was_late{story.timing.heartbeat_interval - 1ms});
  CHECK(story.statuses == before);
  story.tell(agent_loop_was_late{story.timing.heartbeat_interval});
  CHECK(story.statuses == before + 1);
}

TEST_CASE("being late again and again extends no lease") {
  odd_story story;
  story.daemon_acks = false;
  story.leader_acks = false;
  const time_point from = story.now();
  while (!story.did<kill_workers>() && story.now() < from + 60s) {
    story.freeze(100ms);
    story.tell(agent_loop_was_late{100ms});
    story.pass(0ms);
    story.tell(agent_time_passed{});
  }
  CHECK(story.now() <= from + story.timing.isolation_limit + 2 * story.timing.heartbeat_interval);
}

TEST_CASE("a node leaves once, though two reasons to leave come in the same moment") {
  agent_story story;
  story.timing.join_timeout = 3s;
  story.daemon_acks = false;
  story.connect();
  story.prepare(1, 2);
  story.lose_daemon();
  story.tell(daemon_connected{"10.0.0.2"});  // no welcome comes
  story.tell(signal_received{SIGTERM});
  CHECK_FALSE(story.left);
  story.freeze(4s);
  story.tell(agent_time_passed{});
  CHECK(story.all<leave>().size() == 1);
}

TEST_CASE("a leader that has no answer yet counts from its assignment") {
  agent_story story;
  story.daemon_acks = false;
  story.connect();
  story.prepare(1, 2);
  story.pass(3s);
  story.say(ack{0});  // it answers, but has read no status
  story.pass(2s);
  story.assign(1, 0, 2);
  const time_point assigned = story.now();
  while (story.machine().phase() == member_phase::assigned && story.now() < assigned + 30s)
    story.pass(1ms);
  CHECK(story.now() == assigned + story.timing.isolation_limit * 98 / 100);
}

TEST_CASE("a node in a round gives it up before it gives up the daemon") {
  agent_story story;
  story.timing.join_timeout = 3s;
  story.connect();
  story.assign(1, 1, 2);
  story.lose_daemon();
  story.pass(7s);
  CHECK_FALSE(story.left);
  CHECK(story.machine().phase() == member_phase::assigned);
  story.pass(1s);
  CHECK(story.machine().phase() == member_phase::stopped);
  story.pass(3s);
  CHECK(story.left);
}

TEST_CASE("a node that leaves lets go of its tether, or of those that it holds") {
  agent_story story;
  const bool leads = GENERATE(false, true);
  leads ? story.run_as_leader(2) : story.run_as_member();
  story.worker_succeeds(0);
  story.worker_succeeds(1);
  story.lose_daemon();
  story.tell(signal_received{SIGTERM});
  story.forget();
  for (int times = 0; times < 20 && !story.left; ++times)
    story.pass_with_members(1s);
  REQUIRE(story.left);
  CHECK(story.did<drop_tether>() != leads);
  CHECK(story.did<drop_members>() == leads);
}

TEST_CASE(
    "a node alone that stops without a daemon is as isolated as any other, whatever the grace") {
  agent_story story;
  story.run_as_leader(1);
  story.lose_daemon();
  story.pass(100s);
  story.tell(signal_received{SIGTERM});
  CHECK(story.all<stop_workers>().size() == 1);
  CHECK(until<kill_workers>(story) == story.timing.isolation_limit * 98 / 100);
}

TEST_CASE("a worker that ended by a signal puts no isolation off while another lives") {
  const auto cut_off = [](agent_story& story) {
    story.run_as_member();
    story.daemon_acks = story.leader_acks = false;
  };
  agent_story first;
  cut_off(first);
  const duration limit = until<kill_workers>(first);
  agent_story story;
  cut_off(story);
  story.pass(limit - 50ms);
  story.worker_ends_by(0, SIGTERM);
  CHECK(until<kill_workers>(story) == 50ms);
}
