// Both ends of the tether: when a beat is sent, what an ack is worth, and which members a leader
// accepts.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

namespace {

// A member in round 1 without its daemon: only its tether keeps its workers alive.
struct tethered_story : agent_story {
  explicit tethered_story(timers with = {}) {
    timing = with;
    run_as_member();
    lose_daemon();
    leader_acks = false;
    forget();
  }
  std::uint64_t last_beat() const { return all<send_tether_beat>().back().beat.seq; }
};

// A leader of three in round 1; members send beats only when the test says so.
struct leading_story : agent_story {
  leading_story() {
    run_as_leader(3);
    forget();
  }
};

}  // namespace

TEST_CASE("a beat is sent one heartbeat after the last one was, once that is answered") {
  timers timing;
  timing.heartbeat_interval = 900ms;
  tethered_story story(timing);
  story.pass(900ms - 1ms);
  CHECK_FALSE(story.did<send_tether_beat>());
  story.pass(1ms);
  REQUIRE(story.all<send_tether_beat>().size() == 1);
  CHECK(story.last_beat() == 1);
  CHECK_FALSE(story.all<send_tether_beat>()[0].beat.succeeded);
  story.pass(300ms);
  story.tell(tether_acked{1, 1});
  story.pass(600ms - 1ms);
  CHECK(story.all<send_tether_beat>().size() == 1);
  story.pass(1ms);
  CHECK(story.last_beat() == 2);
  // The ack is late: the next beat is due already.
  story.pass(2s);
  CHECK(story.last_beat() == 2);
  story.tell(tether_acked{1, 2});
  CHECK(story.last_beat() == 3);
}

TEST_CASE("a beat says when its node's workers have succeeded") {
  tethered_story story;
  story.leader_acks = true;
  story.worker_succeeds(0);
  story.worker_succeeds(1);
  story.pass(2s);
  CHECK(story.all<send_tether_beat>().back().beat.succeeded);
}

TEST_CASE(
    "a tether without an answer is dropped after half the isolation limit, and dialled again") {
  timers timing;
  timing.isolation_limit = 7s;
  timing.heartbeat_interval = 900ms;
  tethered_story story(timing);
  story.pass(900ms);
  REQUIRE(story.did<send_tether_beat>());
  story.pass(3500ms - 1ms);
  CHECK_FALSE(story.did<drop_tether>());
  story.pass(1ms);
  CHECK(story.did<drop_tether>());
  REQUIRE(story.did<dial_tether>());
  CHECK(story.all<dial_tether>()[0].delay >= 900ms / 20 / 2);
  CHECK(story.all<dial_tether>()[0].delay <= 900ms / 20 * 3 / 2);
}

TEST_CASE("an answer to nothing renews no lease") {
  tethered_story story;
  story.pass(story.timing.heartbeat_interval);
  const std::uint64_t beat = story.last_beat();
  const time_point sent = story.now();
  story.pass(1500ms);
  SECTION("to a beat that was never sent") {
    story.tell(tether_acked{1, beat + 1});
  }
  SECTION("of another round") {
    story.tell(tether_acked{2, beat});
  }
  SECTION("to a hello that has been answered") {
    story.tell(tether_acked{1, 0});
  }
  SECTION("a second one to the same beat") {
    story.tell(tether_acked{1, beat});
    story.pass(0ms);
    const std::size_t beats = story.all<send_tether_beat>().size();
    story.tell(tether_acked{1, beat});
    CHECK(story.all<send_tether_beat>().size() == beats);
    return;
  }
  CHECK(story.last_beat() == beat);
  while (!story.did<kill_workers>() && story.now() < sent + 20s)
    story.pass(1ms);
  // It counts from the hello, one heartbeat before that beat.
  CHECK(story.now() ==
        sent - story.timing.heartbeat_interval + story.timing.isolation_limit * 98 / 100);
}

TEST_CASE("the answer to a hello counts from the oldest dial that may be meant") {
  agent_story story;
  story.daemon_acks = false;
  story.leader_acks = false;
  story.connect();
  story.assign(1, 1, 2);
  const time_point dialled = story.now();
  SECTION("dialled again after silence") {
    story.pass(story.timing.isolation_limit / 2 + 500ms);
    REQUIRE(story.all<dial_tether>().size() == 2);
    story.tell(tether_acked{1, 0});
    story.tell(workers_started{1});
    while (!story.did<kill_workers>() && story.now() < dialled + 30s)
      story.pass(1ms);
    CHECK(story.now() <= dialled + story.timing.isolation_limit);
  }
  SECTION("dialled again after the connection had ended: that hello is gone") {
    story.pass(3s);
    story.tell(tether_disconnected{1, "reset"});
    REQUIRE(story.all<dial_tether>().size() == 2);
    const time_point again = story.now();
    story.tell(tether_acked{1, 0});
    story.tell(workers_started{1});
    while (!story.did<kill_workers>() && story.now() < dialled + 30s)
      story.pass(1ms);
    CHECK(story.now() == again + story.timing.isolation_limit * 98 / 100);
  }
}

TEST_CASE("a leader is dialled again soon, then slower, and soon again once it has answered") {
  agent_story story;
  story.timing.heartbeat_interval = 2s;
  story.timing.start_timeout = 1000s;
  story.connect();
  story.assign(1, 1, 2);
  for (int life = 0; life < 2; ++life) {
    story.forget();
    duration expected = 100ms;
    for (int tries = 0; tries < 20; ++tries)
      story.tell(tether_disconnected{1, "Connection refused"});
    for (const dial_tether& dial : story.all<dial_tether>()) {
      CHECK(dial.delay >= expected / 2);
      CHECK(dial.delay <= expected * 3 / 2);
      CHECK(dial.port == 29500);
      CHECK(dial.hello.round == 1);
      CHECK(dial.hello.instance == agent_story::instance);
      expected = std::min<duration>(expected * 2, 1s);
    }
    CHECK(story.all<dial_tether>().size() == 20);
    story.tell(tether_acked{1, 0});
  }
}

TEST_CASE("a tether that is not wanted, or of another round, is not dialled again") {
  agent_story story;
  story.run_as_member();
  story.forget();
  story.tell(tether_disconnected{2, "reset"});
  CHECK_FALSE(story.did<dial_tether>());
  story.want(desired_phase::stop, 1);
  story.tell(tether_disconnected{1, "reset"});
  story.tell(tether_acked{1, 0});
  story.pass(3s);
  CHECK_FALSE(story.did<dial_tether>());
  CHECK_FALSE(story.did<send_tether_beat>());
}

TEST_CASE("a leader is given half of start_timeout from the assignment on") {
  agent_story story;
  story.timing.start_timeout = 61s;
  story.connect();
  story.pass(3s);
  story.assign(1, 1, 2);
  const time_point assigned = story.now();
  SECTION("not reached") {
    story.pass(30500ms - 1ms);
    CHECK(story.machine().phase() == member_phase::assigned);
    story.forget();
    story.pass(1ms);
    CHECK(story.sent.phase == member_phase::failed);
    CHECK(story.did<drop_tether>());
    story.forget();
    story.pass(60s);
    CHECK_FALSE(story.did<dial_tether>());
  }
  SECTION("reached once, and lost") {
    story.reach_leader();
    story.leader_acks = false;
    story.tell(workers_started{1});
    story.pass(100s);
    CHECK(story.sent.phase == member_phase::running);
  }
  CHECK(story.now() > assigned);
}

TEST_CASE("a leader takes tethers as soon as its service is open") {
  agent_story story;
  story.connect();
  story.prepare(1, 3);
  story.attach(2, 102);
  CHECK(story.did<ack_member>());
  CHECK_FALSE(story.did<refuse_member>());
}

TEST_CASE("a node that leads no round accepts no tether") {
  agent_story story;
  SECTION("a member") {
    story.run_as_member(3);
  }
  SECTION("a leader whose store has failed") {
    story.run_as_leader(3);
    story.tell(service_failed{1, "lost"});
  }
  SECTION("a leader whose round has ended") {
    story.run_as_leader(3);
    story.want(desired_phase::stop, 1);
    story.workers_end_by_signal(15);
  }
  story.forget();
  story.tell(member_attached{300, {agent_story::instance, 1, {9, 2}, 2}});
  CHECK(story.did<refuse_member>());
  CHECK_FALSE(story.did<ack_member>());
}

TEST_CASE("group rank 0 is the leader's own: no tether may claim it") {
  leading_story story;
  story.attach(0, 300);
  CHECK(story.did<refuse_member>());
}

TEST_CASE("a newer tether of a member takes the place of the older one") {
  leading_story story;
  story.attach(1, 300);
  REQUIRE(story.all<refuse_member>().size() == 1);
  CHECK(story.all<refuse_member>()[0].tether == 101);
  REQUIRE(story.all<ack_member>().size() == 1);
  CHECK(story.all<ack_member>()[0].tether == 300);
  story.forget();
  story.tell(member_beat{101, {1}});
  CHECK_FALSE(story.did<ack_member>());
  story.tell(member_detached{101});  // its end comes late
  story.tell(member_beat{300, {1}});
  CHECK(story.did<ack_member>());
  story.forget();
  story.tell(member_detached{300});
  story.attach(1, 301);
  CHECK_FALSE(story.did<refuse_member>());
}

TEST_CASE("a member's first beat renews the lease from when its hello was answered") {
  agent_story story;
  story.connect();
  story.prepare(1, 2);
  story.assign(1, 0, 2);
  story.tell(workers_started{1});
  story.daemon_acks = false;
  story.pass(3s);
  story.attach(1, 101);
  const time_point answered = story.now();
  story.lose_daemon();
  story.pass(1s);
  story.tell(member_beat{101, {1}});
  while (!story.did<kill_workers>() && story.now() < answered + 20s)
    story.pass(1ms);
  CHECK(story.now() == answered + story.timing.isolation_limit * 98 / 100);
}

TEST_CASE("a beat is answered once, by its number") {
  leading_story story;
  story.tell(member_beat{101, {4}});
  story.tell(member_beat{101, {4}});
  story.tell(member_beat{101, {3}});
  story.tell(member_beat{999, {5}});
  REQUIRE(story.all<ack_member>().size() == 1);
  CHECK(story.all<ack_member>()[0].seq == 4);
  CHECK(story.all<ack_member>()[0].tether == 101);
}

TEST_CASE("a leader without its daemon lives by its oldest tether, and by all of them") {
  leading_story story;
  const duration limit = story.timing.isolation_limit * 98 / 100;
  story.lose_daemon();
  story.pass(1s);
  story.tell(member_beat{101, {1}});  // renews it from when its hello was answered
  const time_point first = story.now();
  story.pass(2s);
  story.tell(member_beat{102, {1}});
  story.tell(member_beat{101, {2}});  // renews it from `first`
  story.pass(1s);
  story.tell(member_beat{102, {2}});  // and this one from 2 s after it
  story.forget();
  while (!story.did<kill_workers>() && story.now() < first + 20s)
    story.pass(1ms);
  CHECK(story.now() == first + limit);
}

TEST_CASE("a leader that misses one member of its round has no lease") {
  agent_story story;
  story.connect();
  story.prepare(1, 3);
  story.assign(1, 0, 3);
  story.tell(workers_started{1});
  story.attach(1, 101);
  const time_point answered = story.now();
  story.lose_daemon();
  story.pass_with_members(6s);
  story.forget();
  while (!story.did<kill_workers>() && story.now() < answered + 30s)
    story.pass(10ms);
  CHECK(story.now() <= answered + story.timing.isolation_limit);
  const auto notes = story.all<agent_note>();
  REQUIRE_FALSE(notes.empty());
  CHECK(notes.back().text.ends_with(
      "; this node is the leader, and 1 of the 2 other nodes is connected to it)"));
}

TEST_CASE("beats of members whose workers have succeeded keep no leader that has") {
  leading_story story;
  story.worker_succeeds(0);
  story.worker_succeeds(1);
  story.lose_daemon();
  const time_point lost = story.now();
  story.members_succeeded = true;
  story.members_beat();
  story.pass_with_members(story.timing.join_timeout - 2s);
  CHECK_FALSE(story.left);
  story.pass_with_members(4s);
  CHECK(story.left);
  CHECK(story.now() <= lost + story.timing.join_timeout + 4s);
}

TEST_CASE("a member that has let go says for how long its leader had given no ack") {
  agent_story story;
  story.run_as_member();
  story.leader_acks = false;
  story.pass(story.timing.heartbeat_interval);
  story.tell(tether_acked{1, story.all<send_tether_beat>().back().beat.seq});
  const time_point acked = story.now();
  story.pass(5s);
  CHECK(story.sent.tether_ages.empty());
  story.want(desired_phase::stop, 1);
  CHECK(story.sent.phase == member_phase::stopping);
  CHECK(story.sent.tether_ages == std::vector<tether_age>{{0, story.now() - acked}});
  story.pass(1s);
  story.workers_end_by_signal(15);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.tether_ages == std::vector<tether_age>{{0, story.now() - acked}});
}

TEST_CASE("a leader that has let go names the member that it had sent no ack for long") {
  leading_story story;
  story.pass(5s);
  story.tell(member_beat{101, {4}});
  CHECK(story.sent.tether_ages.empty());
  story.want(desired_phase::stop, 1);
  REQUIRE(story.sent.tether_ages.size() == 1);
  CHECK(story.sent.tether_ages[0].group_rank == 2);
  CHECK(story.sent.tether_ages[0].age >= 5s);
  CHECK(story.sent.tether_ages[0].age < 6s);
}

TEST_CASE("a round's tethers say nothing in the next round") {
  SECTION("at a member") {
    agent_story story;
    story.run_as_member();
    story.pass(5s);
    story.want(desired_phase::stop, 1);
    story.workers_end_by_signal(15);
    story.forget();
    story.assign(2, 1, 2);
    CHECK_FALSE(story.did<start_workers>());
    story.tell(tether_acked{2, 1});
    story.pass(story.timing.heartbeat_interval);  // the daemon renews the lease
    CHECK_FALSE(story.did<start_workers>());
    story.tell(tether_acked{2, 0});
    CHECK(story.did<start_workers>());
  }
  SECTION("at a leader") {
    leading_story story;
    story.members_beat();
    story.pass_with_members(3s);
    story.want(desired_phase::stop, 1);
    story.workers_end_by_signal(15);
    story.prepare(2, 3);
    story.assign(2, 0, 3);
    story.tell(workers_started{2});
    story.forget();
    story.tell(member_attached{300, {agent_story::instance, 2, {8, 1}, 1}});  // another agent
    CHECK_FALSE(story.did<refuse_member>());
    story.attach(2, 301);
    const time_point began = story.now();
    story.lose_daemon();
    while (!story.did<kill_workers>() && story.now() < began + 30s)
      story.pass(10ms);
    CHECK(story.now() <= began + story.timing.isolation_limit);
  }
}
