#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

namespace {

// When a node without a daemon ends its workers, with the default timers.
constexpr duration orphan_end = 540s;

}  // namespace

TEST_CASE("a status is sent per heartbeat, and at once on a change") {
  agent_story story;
  story.connect();
  const std::size_t before = story.statuses;
  story.pass(10s);
  CHECK(story.statuses == before + 10);
  story.want(desired_phase::wait, 0);
  CHECK(story.statuses == before + 11);
  CHECK(story.sent.instance == agent_story::instance);
}

TEST_CASE("a dead daemon alone costs nothing") {
  SECTION("a member runs on while its tether answers") {
    agent_story story;
    story.run_as_member();
    story.lose_daemon();
    story.pass(orphan_end - 2s);
    CHECK_FALSE(story.did<kill_workers>());
    CHECK_FALSE(story.left);
    CHECK(story.machine().phase() == member_phase::running);
  }
  SECTION("a leader while it holds the tethers of all") {
    agent_story story;
    story.run_as_leader(3);
    story.lose_daemon();
    story.pass_with_members(orphan_end - 2s);
    CHECK_FALSE(story.did<kill_workers>());
  }
  SECTION("a member without peers") {
    agent_story story;
    story.run_as_leader(1);
    story.lose_daemon();
    story.pass(orphan_end - 2s);
    CHECK_FALSE(story.did<kill_workers>());
    CHECK_FALSE(story.did<stop_workers>());
  }
}

// If the daemon can reach none of the nodes, it waits for orphan_limit, and no longer.
TEST_CASE("no lease lasts until orphan_limit without a daemon") {
  agent_story story;
  bool has_members = false;
  SECTION("a member whose tether answers") {
    story.run_as_member();
  }
  SECTION("a leader that holds the tethers of all") {
    story.run_as_leader(3);
    has_members = true;
  }
  SECTION("a node without peers") {
    story.run_as_leader(1);
  }
  story.lose_daemon();
  const time_point last = story.now();
  story.forget();
  const auto pass = [&](duration time) {
    has_members ? story.pass_with_members(time) : story.pass(time);
  };
  pass(orphan_end - 2s);
  CHECK_FALSE(story.did<stop_workers>());
  // SIGTERM comes first, because no other round can have begun.
  pass(4s);
  REQUIRE(story.did<stop_workers>());
  CHECK(story.all<stop_workers>()[0].signal == SIGTERM);
  CHECK_FALSE(story.did<kill_workers>());
  pass(story.timing.stop_grace);
  CHECK(story.did<kill_workers>());
  CHECK(story.now() < last + story.timing.orphan_limit * 98 / 100);
  story.workers_end_by_signal(9);
  CHECK(story.machine().phase() == member_phase::stopped);
  story.connect();
  REQUIRE_FALSE(story.sent.causes.empty());
  CHECK(story.sent.causes[0].kind == cause_class::node_lost);
  CHECK(story.sent.causes[0].text.find(
            ": the workers are ended, because after 10 min (orphan_limit) the other nodes may "
            "start a round without this one; the last try: ") != std::string::npos);
}

TEST_CASE("a short orphan_limit leaves no more grace than fits into it") {
  agent_story story;
  story.timing.orphan_limit = 20s;
  story.run_as_member();
  story.lose_daemon();
  const time_point last = story.now();
  story.forget();
  while (!story.did<kill_workers>() && story.now() < last + 30s)
    story.pass(10ms);
  CHECK(story.now() <= last + 19s);
}

TEST_CASE("a member in contact with the daemon needs no tether") {
  agent_story story;
  story.run_as_member();
  story.leader_acks = false;
  story.pass(3600s);
  CHECK_FALSE(story.did<kill_workers>());
  CHECK(story.all<dial_tether>().size() > 100);  // and keeps trying to have one
}

TEST_CASE("isolation counts from when the last message that was answered was sent") {
  agent_story story;
  story.run_as_member();
  story.pass(100s);
  story.daemon_acks = false;
  story.leader_acks = false;
  story.forget();
  const time_point last = story.now();
  while (!story.did<kill_workers>() && story.now() < last + 20s)
    story.pass(1ms);
  // Everything that got an ack had been sent by then; the 2 % is for clocks that differ.
  CHECK(story.now() <= last + story.timing.isolation_limit * 98 / 100);
  CHECK(story.now() >= last + story.timing.isolation_limit * 98 / 100 - 1s);
  CHECK_FALSE(story.did<stop_workers>());
  CHECK(story.did<drop_tether>());
  story.workers_end_by_signal(9);
  CHECK(story.machine().phase() == member_phase::stopped);
}

TEST_CASE("a late ack renews the lease from when its status was sent, not from when it came") {
  agent_story story;
  story.run_as_member();
  story.leader_acks = false;
  story.daemon_acks = false;
  story.pass(3s);
  const std::uint64_t early = story.sent.seq;
  const time_point sent_at = story.now();
  story.pass(3s);
  story.say(ack{early});
  story.forget();
  while (!story.did<kill_workers>() && story.now() < sent_at + 20s)
    story.pass(1ms);
  CHECK(story.now() <= sent_at + story.timing.isolation_limit);
}

TEST_CASE("a leader without the daemon dies with the first tether that it misses") {
  agent_story story;
  story.run_as_leader(3);
  story.lose_daemon();
  story.pass_with_members(60s);
  CHECK_FALSE(story.did<kill_workers>());
  story.silent_members[102] = true;
  const time_point last = story.now();
  while (!story.did<kill_workers>() && story.now() < last + 20s) {
    story.pass(100ms);
    story.members_beat();
  }
  CHECK(story.now() <= last + story.timing.isolation_limit);
}

TEST_CASE("a beat renews the lease from when the answer before it was given") {
  agent_story story;
  story.run_as_leader(2);
  story.lose_daemon();
  story.silent_members[101] = true;
  // The hello got its ack at the start; a beat that took 6 s to arrive shows no more than that.
  const time_point answered = story.now();
  story.pass(6s);
  story.tell(member_beat{101, {1}});
  story.forget();
  while (!story.did<kill_workers>() && story.now() < answered + 20s)
    story.pass(10ms);
  CHECK(story.now() <= answered + story.timing.isolation_limit);
}

TEST_CASE("a leader without a lease answers no member") {
  agent_story story;
  story.run_as_leader(2);
  story.worker_succeeds(0);
  story.worker_succeeds(1);
  story.lose_daemon();
  story.silent_members[101] = true;
  story.pass(60s);
  story.forget();
  story.attach(1, 200);
  CHECK_FALSE(story.did<ack_member>());
  CHECK(story.machine().phase() == member_phase::succeeded);
  CHECK_FALSE(story.did<close_service>());
}

TEST_CASE("workers that are being stopped die of isolation, too, whatever the grace") {
  agent_story story;
  story.run_as_member();
  desired order = story.order(desired_phase::stop, 1);
  order.grace = 60s;
  story.say(order);
  story.daemon_acks = false;
  story.forget();
  story.pass(story.timing.isolation_limit);
  CHECK(story.did<kill_workers>());
}

TEST_CASE("an isolated node comes back saying that its workers of the round are gone") {
  agent_story story;
  story.run_as_member();
  story.lose_daemon();
  story.leader_acks = false;
  story.pass(10s);
  story.workers_end_by_signal(9);
  story.connect();
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.round == 1);
  REQUIRE_FALSE(story.sent.causes.empty());
  CHECK(story.sent.causes[0].kind == cause_class::node_lost);
  CHECK(story.sent.causes[0].by_our_stop);
  story.want(desired_phase::wait, 1);
  CHECK(story.sent.phase == member_phase::joined);
  story.assign(2, 1, 2);
  story.reach_leader();
  CHECK(story.machine().phase() == member_phase::starting);
}

TEST_CASE("fence kills without grace, and then the node joins again") {
  agent_story story;
  story.run_as_member();
  story.forget();
  story.want(desired_phase::fence, 3);
  CHECK(story.did<kill_workers>());
  CHECK_FALSE(story.did<stop_workers>());
  CHECK(story.sent.phase == member_phase::stopping);
  story.workers_end_by_signal(9);
  CHECK(story.sent.phase == member_phase::joined);
  CHECK(story.sent.instance == 0);
  CHECK(story.sent.round == 0);
  CHECK_FALSE(story.left);
  story.want(desired_phase::wait, 3);
  CHECK(story.sent.instance == agent_story::instance);
}

TEST_CASE("an agent that stood still starts no worker on the old assignment that it reads") {
  agent_story story;
  story.connect();
  story.prepare(1, 1);
  story.daemon_acks = false;
  story.freeze(20s);
  story.tell(agent_loop_was_late{20s});
  story.assign(1, 0, 1);
  CHECK_FALSE(story.did<start_workers>());
  story.ack_status();
  CHECK(story.did<start_workers>());
}

TEST_CASE("a loop that was late gives the others time for one answer before it kills") {
  agent_story story;
  story.run_as_member();
  SECTION("and runs on when it comes") {
    story.freeze(9s);
    story.tell(agent_loop_was_late{9s});
    story.tell(agent_time_passed{});
    story.pass(60s);
    CHECK_FALSE(story.did<kill_workers>());
  }
  SECTION("and kills when it does not") {
    story.daemon_acks = false;
    story.leader_acks = false;
    story.freeze(20s);
    story.tell(agent_loop_was_late{20s});
    story.tell(agent_time_passed{});
    CHECK_FALSE(story.did<kill_workers>());
    story.pass(2 * story.timing.heartbeat_interval);
    CHECK(story.did<kill_workers>());
  }
}

// A daemon that knows nothing acknowledges every node, to keep those alive that run: it cannot
// recognise a node whose round went on without it.
TEST_CASE("a node that stood still gets no lease from a daemon that does not know its round") {
  // A member, a leader, and a node that is alone, which stands still for longer than orphan_limit.
  const std::uint32_t leads = GENERATE(0U, 2U, 1U);
  const duration late = leads == 1 ? 2000s : 20s;
  agent_story story;
  leads == 0 ? story.run_as_member() : story.run_as_leader(leads);
  story.leader_acks = story.daemon_acks = false;
  story.freeze(late);
  story.tell(agent_loop_was_late{late});
  story.lose_daemon();
  story.daemon_acks = true;
  story.forget();
  const auto ends = [&story] { return story.did<kill_workers>() || story.did<stop_workers>(); };
  SECTION("it ends its workers") {
    story.connect();
    story.tell(agent_time_passed{});
    CHECK_FALSE(ends());
    story.pass(2 * story.timing.heartbeat_interval);
    CHECK(ends());
  }
  SECTION("but for one that says that the round is on") {
    story.connect();
    desired same = story.order(desired_phase::run, 1);
    same.seq = --story.desired_seq;  // said again, as on a new connection
    same.assignment = story.sent.assignment;
    story.say(same);
    story.ack_status();
    story.tell(agent_time_passed{});
    story.pass(60s);
    CHECK_FALSE(ends());
  }
}

TEST_CASE("a node that stood still for longer than orphan_limit asks before it ends its workers") {
  agent_story story;
  story.run_as_leader(1);
  story.forget();
  SECTION("and runs on when the daemon answers") {
    const std::uint64_t before = story.sent.seq;
    story.freeze(2000s);
    story.tell(agent_loop_was_late{2000s});
    story.say(ack{before});  // it waited in the socket, so it says nothing about now
    story.tell(agent_time_passed{});
    story.pass(60s);
    CHECK_FALSE(story.did<stop_workers>());
  }
  SECTION("and ends them if no daemon does") {
    story.daemon_acks = false;
    story.freeze(2000s);
    story.tell(agent_loop_was_late{2000s});
    story.tell(agent_time_passed{});
    CHECK_FALSE(story.did<stop_workers>());
    story.pass(2 * story.timing.heartbeat_interval);
    CHECK(story.did<stop_workers>());
  }
}

TEST_CASE("a tether of another round, instance, group rank or agent is refused") {
  agent_story story;
  story.run_as_leader(3);
  story.forget();
  SECTION("round") {
    story.tell(member_attached{200, {agent_story::instance, 2, {9, 1}, 1}});
  }
  SECTION("instance") {
    story.tell(member_attached{200, {5, 1, {9, 1}, 1}});
  }
  SECTION("group rank") {
    story.tell(member_attached{200, {agent_story::instance, 1, {9, 3}, 3}});
  }
  SECTION("agent") {
    story.tell(member_attached{200, {agent_story::instance, 1, {8, 8}, 1}});
  }
  CHECK(story.did<refuse_member>());
  CHECK_FALSE(story.did<ack_member>());
}
