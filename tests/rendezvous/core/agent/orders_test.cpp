// What a member does with orders of the daemon that come at odd times: one after another while
// workers are still ending, for rounds that are over, with numbers that make no sense.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

TEST_CASE("a stop with a shorter grace shortens the one under way, a longer one does not") {
  agent_story story;
  story.run_as_member();
  desired order = story.order(desired_phase::stop, 1);
  order.grace = 10s;
  story.say(order);
  story.pass(1s);
  SECTION("shorter") {
    order = story.order(desired_phase::stop, 1);
    order.grace = 2s;
    story.say(order);
    story.pass(2s - 1ms);
    CHECK_FALSE(story.did<kill_workers>());
    story.pass(1ms);
    CHECK(story.did<kill_workers>());
  }
  SECTION("longer") {
    order = story.order(desired_phase::stop, 1);
    order.grace = 60s;
    story.say(order);
    story.pass(9s - 1ms);
    CHECK_FALSE(story.did<kill_workers>());
    story.pass(1ms);
    CHECK(story.did<kill_workers>());
  }
  CHECK(story.all<stop_workers>().size() == 1);
}

TEST_CASE("workers are asked to end by the signal that a person has sent to another node") {
  agent_story story;
  story.run_as_member();
  desired order = story.order(desired_phase::stop, 1);
  order.grace = 10s;
  order.signal = GENERATE(0, SIGINT, SIGQUIT);
  order.is_ordinary = GENERATE(false, true);
  story.say(order);
  REQUIRE(story.all<stop_workers>().size() == 1);
  CHECK(story.all<stop_workers>()[0].signal == (order.signal == 0 ? SIGTERM : order.signal));
  CHECK(story.all<stop_workers>()[0].may_stay == (order.signal == 0));
  CHECK(story.all<stop_workers>()[0].is_ordinary == order.is_ordinary);
  SECTION("its own comes later: they are asked once") {
    story.tell(signal_received{SIGINT});
    CHECK(story.all<stop_workers>().size() == 1);
    CHECK_FALSE(story.did<kill_workers>());
  }
}

TEST_CASE("no worker lives on if no other round follows") {
  agent_story story;
  story.run_as_member();
  SECTION("as this node leaves") {
    story.tell(signal_received{SIGTERM});
  }
  SECTION("as the run is over") {
    story.say(story.order(desired_phase::close, 1));
  }
  SECTION("as the run ends with this round") {
    desired order = story.order(desired_phase::stop, 1);
    order.exit_code = 3;
    story.say(order);
    CHECK(story.sent.phase == member_phase::stopping);
  }
  REQUIRE(story.all<stop_workers>().size() == 1);
  CHECK_FALSE(story.all<stop_workers>()[0].may_stay);
}

TEST_CASE("an order to end workers by a signal that is not a request is ignored") {
  agent_story story;
  story.run_as_member();
  desired order = story.order(desired_phase::stop, 1);
  order.grace = 10s;
  order.signal = GENERATE(SIGSTOP, SIGKILL, SIGUSR1, -1, 65);
  story.say(order);
  CHECK_FALSE(story.did<stop_workers>());
  CHECK_FALSE(story.did<kill_workers>());
}

TEST_CASE("a round of no nodes is prepared as one of one") {
  agent_story story;
  story.connect();
  story.prepare(1, 0);
  REQUIRE(story.all<open_service>().size() == 1);
  CHECK(story.all<open_service>()[0].group_world_size == 1);
}

TEST_CASE("workers start with the number of restarts that came with their round") {
  agent_story story;
  story.connect();
  desired order = story.order(desired_phase::run, 1);
  order.restarts_used = 3;
  order.assignment = assignment{1, 2, 2, 4, "10.0.0.1", 29501, 29500, "node-a", {}};
  order.members = "ranks 0-1 on node-a, 2-3 on node-b";
  story.say(order);
  story.reach_leader();
  REQUIRE(story.did<start_workers>());
  CHECK(story.all<start_workers>()[0].restarts_used == 3);
  CHECK(story.all<start_workers>()[0].instance == agent_story::instance);
  CHECK(story.all<start_workers>()[0].assignment == *order.assignment);
  CHECK(story.all<start_workers>()[0].members == order.members);
}

TEST_CASE("stop and close take the grace that they name, and stop_grace where they name none") {
  const desired_phase how = GENERATE(desired_phase::stop, desired_phase::close);
  const duration named = GENERATE(0s, 11s);
  agent_story story;
  story.timing.stop_grace = 7s;
  story.run_as_member();
  desired order = story.order(how, 1);
  order.grace = named;
  story.say(order);
  const duration grace = named == 0s ? 7s : named;
  story.pass(grace - 1ms);
  CHECK_FALSE(story.did<kill_workers>());
  story.pass(1ms);
  CHECK(story.did<kill_workers>());
}

TEST_CASE("a node that is to wait stops what it runs, with the grace of a stop") {
  agent_story story;
  story.timing.stop_grace = 7s;
  story.run_as_member();
  story.want(desired_phase::wait, 1);
  CHECK(story.did<stop_workers>());
  CHECK(story.sent.phase == member_phase::stopping);
  story.pass(7s - 1ms);
  CHECK_FALSE(story.did<kill_workers>());
  story.pass(1ms);
  CHECK(story.did<kill_workers>());
  story.workers_end_by_signal(SIGKILL);
  CHECK(story.sent.phase == member_phase::joined);
}

TEST_CASE("between a stop and its end a wait changes nothing about the grace") {
  agent_story story;
  story.timing.stop_grace = 7s;
  story.run_as_member();
  desired order = story.order(desired_phase::stop, 1);
  order.grace = 30s;
  story.say(order);
  story.want(desired_phase::wait, 1);
  story.pass(29s);
  CHECK_FALSE(story.did<kill_workers>());
  story.pass(1s);
  CHECK(story.did<kill_workers>());
}

TEST_CASE("the newest order that had to wait is the one that is obeyed") {
  agent_story story;
  story.run_as_member();
  story.forget();
  story.assign(2, 1, 2);
  SECTION("a fence") {
    story.want(desired_phase::fence, 2);
    story.workers_end_by_signal(SIGKILL);
    CHECK(story.sent.instance == 0);
  }
  SECTION("a stop of it") {
    story.want(desired_phase::stop, 2);
    story.workers_end_by_signal(SIGKILL);
    CHECK(story.sent.phase == member_phase::stopped);
    CHECK(story.sent.round == 2);
  }
  SECTION("a stop of the round before it") {
    story.want(desired_phase::stop, 1);
    story.workers_end_by_signal(SIGKILL);
    CHECK(story.sent.phase == member_phase::stopped);
    CHECK(story.sent.round == 1);
  }
  SECTION("a close") {
    story.want(desired_phase::close, 2);
    story.workers_end_by_signal(SIGKILL);
    CHECK(story.left);
  }
  SECTION("a wait") {
    story.want(desired_phase::wait, 2);
    story.workers_end_by_signal(SIGKILL);
    CHECK(story.sent.phase == member_phase::joined);
  }
  SECTION("a round to prepare") {
    desired order = story.order(desired_phase::prepare, 3);
    order.group_world_size = 2;
    story.say(order);
    story.workers_end_by_signal(SIGKILL);
    CHECK(story.machine().phase() == member_phase::preparing);
    CHECK(story.machine().round() == 3);
  }
  CHECK_FALSE(story.did<dial_tether>());
}

TEST_CASE("a new round to prepare kills what lives of an older one") {
  agent_story story;
  story.run_as_member();
  story.forget();
  desired order = story.order(desired_phase::prepare, 2);
  order.group_world_size = 2;
  story.say(order);
  CHECK(story.did<kill_workers>());
  CHECK_FALSE(story.did<open_service>());
  story.workers_end_by_signal(SIGKILL);
  CHECK(story.did<open_service>());
}

TEST_CASE("a running round is not begun again by a newer message about it") {
  agent_story story;
  SECTION("prepare") {
    story.connect();
    story.prepare(1, 2);
    story.forget();
    desired order = story.order(desired_phase::prepare, 1);
    order.group_world_size = 2;
    story.say(order);
    CHECK_FALSE(story.did<open_service>());
    CHECK_FALSE(story.did<close_service>());
    CHECK(story.sent.phase == member_phase::preparing);
  }
  SECTION("run") {
    story.run_as_member();
    story.forget();
    story.assign(1, 1, 2);
    CHECK_FALSE(story.did<dial_tether>());
    CHECK(story.sent.phase == member_phase::running);
  }
  SECTION("run, to a leader that has not prepared it yet") {
    story.connect();
    desired order = story.order(desired_phase::prepare, 1);
    order.group_world_size = 2;
    story.say(order);
    story.want(desired_phase::run, 1);  // without an assignment
    CHECK(story.machine().phase() == member_phase::preparing);
  }
}

TEST_CASE("orders for a round before the one that is on are ignored") {
  const desired_phase late =
      GENERATE(desired_phase::prepare, desired_phase::run, desired_phase::stop);
  agent_story story;
  story.connect();
  story.assign(2, 1, 2);
  story.reach_leader();
  story.tell(workers_started{2});
  story.forget();
  story.want(late, 1);
  CHECK(story.sent.phase == member_phase::running);
  CHECK(story.sent.round == 2);
  CHECK_FALSE(story.did<stop_workers>());
  CHECK_FALSE(story.did<kill_workers>());
}

TEST_CASE("a stop of a round that never began here ends no more than that") {
  agent_story story;
  story.connect();
  story.want(desired_phase::stop, 0);
  CHECK(story.sent.phase == member_phase::joined);  // of no round at all
  story.want(desired_phase::stop, 2);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.round == 2);
  story.want(desired_phase::stop, 1);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.round == 2);
}

TEST_CASE("a stop of a newer round stops the older one, and is then answered for its own") {
  agent_story story;
  story.run_as_member();
  story.want(desired_phase::stop, 2);
  CHECK(story.sent.phase == member_phase::stopping);
  CHECK(story.sent.round == 1);
  story.workers_end_by_signal(SIGTERM);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.round == 2);
}

TEST_CASE("after close nothing else is obeyed") {
  agent_story story;
  story.run_as_member();
  desired order = story.order(desired_phase::close, 1);
  order.exit_code = 3;
  story.say(order);
  story.forget();
  story.want(desired_phase::fence, 1);
  CHECK_FALSE(story.did<kill_workers>());
  order = story.order(desired_phase::close, 1);
  order.exit_code = 5;
  story.say(order);
  story.workers_end_by_signal(SIGTERM);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 3);
}

TEST_CASE("a fence while a node waits makes it join again") {
  agent_story story;
  story.connect();
  story.want(desired_phase::wait, 3);
  CHECK(story.sent.instance == agent_story::instance);
  story.want(desired_phase::fence, 3);
  CHECK(story.sent.instance == 0);
  CHECK(story.sent.round == 0);
  CHECK(story.sent.round_told == 0);
  CHECK(story.sent.desired_seq == 0);
}

TEST_CASE("a draining node begins no round, whatever the order") {
  const desired_phase how = GENERATE(desired_phase::prepare, desired_phase::run);
  agent_story story;
  story.run_as_member();
  story.tell(signal_received{SIGTERM});
  story.workers_end_by_signal(SIGTERM);
  story.forget();
  desired order = story.order(how, 2);
  order.group_world_size = 2;
  order.assignment = assignment{1, 2, 2, 4, "10.0.0.1", 29501, 29500, "node-a", {}};
  story.say(order);
  CHECK_FALSE(story.did<open_service>());
  CHECK_FALSE(story.did<dial_tether>());
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.round == 1);
}

TEST_CASE("once a fenced node has joined again it is like any other") {
  agent_story story;
  story.run_as_member();
  story.want(desired_phase::fence, 1);
  story.workers_end_by_signal(SIGKILL);
  REQUIRE(story.sent.instance == 0);
  story.assign(2, 1, 2);
  story.reach_leader();
  story.tell(workers_started{2});
  story.want(desired_phase::stop, 2);
  story.workers_end_by_signal(SIGTERM);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.instance == agent_story::instance);
  CHECK(story.sent.round == 2);
}

TEST_CASE("the last place of a round makes sense, the one after it does not") {
  const std::uint32_t group_rank = GENERATE(2U, 3U);
  agent_story story;
  story.connect();
  desired order = story.order(desired_phase::run, 1);
  order.assignment = assignment{group_rank, 3, 4, 6, "10.0.0.1", 29501, 29500, "node-a", {}};
  SECTION("sound but for the group rank") {}
  SECTION("without the leader's port") {
    order.assignment->tether_port = 0;
  }
  SECTION("without the leader's address") {
    order.assignment->master_address.clear();
  }
  SECTION("of as many nodes as a run may have") {
    order.assignment->group_world_size = nodes_per_run_max;
    order.assignment->group_rank = 2;
  }
  SECTION("of more than that") {
    order.assignment->group_world_size = nodes_per_run_max + 1;
  }
  const bool sound = order.assignment->group_rank == 2 && order.assignment->tether_port != 0 &&
                     !order.assignment->master_address.empty() &&
                     order.assignment->group_world_size <= nodes_per_run_max;
  story.say(order);
  CHECK(story.did<dial_tether>() == sound);
  CHECK((story.machine().phase() == member_phase::failed) == !sound);
  if (sound) return;
  story.lose_daemon();
  story.connect();
  CHECK_FALSE(story.sent.assignment);
}

TEST_CASE("a node that is asked to leave while another instance fences it is in none at the end") {
  agent_story story;
  story.run_as_member();
  desired other = story.order(desired_phase::wait, 0);
  other.instance = 78;
  story.say(other);
  REQUIRE(story.did<kill_workers>());
  story.tell(signal_received{SIGTERM});
  story.workers_end_by_signal(SIGKILL);
  CHECK(story.sent.phase == member_phase::joined);
  CHECK(story.sent.instance == 0);
  CHECK(story.sent.round == 0);
}

TEST_CASE(
    "a message of another instance ends a round that is done here, and reaches one that is stuck") {
  agent_story story;
  story.run_as_member();
  desired other = story.order(desired_phase::prepare, 1);
  other.instance = 78;
  SECTION("done, and asked to leave") {
    story.worker_succeeds(0);
    story.worker_succeeds(1);
    story.tell(signal_received{SIGTERM});
    story.say(other);
    CHECK(story.sent.phase == member_phase::joined);
    CHECK(story.sent.instance == 0);
  }
  SECTION("stuck") {
    story.want(desired_phase::fence, 1);
    story.pass(story.timing.kill_wait);
    REQUIRE(story.sent.unkillable == 2);
    other.phase = desired_phase::stop;
    other.seq += 10;
    story.say(other);
    story.workers_end_by_signal(SIGKILL);
    CHECK(story.sent.phase == member_phase::stopped);
    CHECK(story.sent.instance == 78);
  }
}
