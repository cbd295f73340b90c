// How workers end and a node goes down: whose fault an end was, how long everything may take, when
// a node that leaves is gone.
#include "tests/support/catch.hpp"
#include "tests/support/member_story.hpp"

#include <algorithm>
#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::test::member_story;

namespace {

// Durations that coincide with nothing else.
timers odd_timers() {
  timers timing;
  timing.stop_grace = 5300ms;
  timing.drain_grace = 31700ms;
  timing.kill_wait = 4600ms;
  return timing;
}

struct odd_story : member_story {
  odd_story() {
    timing = odd_timers();
    run_as_member();
    forget();
  }
};

// The moment of the first effect of a kind, from `story.now()`; more than a minute: never.
template <typename Effect>
duration until(member_story& story, duration most = 70s) {
  const time_point from = story.now();
  while (!story.did<Effect>() && story.now() <= from + most)
    story.pass(1ms);
  return story.now() - from;
}

}  // namespace

TEST_CASE("what outlives SIGKILL is named kill_wait after it, to the moment") {
  odd_story story;
  story.want(desired_phase::fence, 1);
  REQUIRE(story.all<kill_workers>().size() == 1);
  story.pass(4600ms - 1ms);
  CHECK(story.sent.phase == member_phase::stopping);
  CHECK(story.sent.unkillable == 0);
  story.pass(1ms);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.unkillable == 2);
  CHECK(story.sent.instance == member_story::instance);
  // Each that ends after all is told, and none is killed again.
  const std::size_t before = story.statuses;
  story.worker_fails(0, SIGKILL);
  CHECK(story.statuses == before + 1);
  CHECK(story.sent.unkillable == 1);
  story.want(desired_phase::fence, 2);
  CHECK(story.all<kill_workers>().size() == 1);
  story.worker_fails(1, SIGKILL);
  CHECK(story.sent.unkillable == 0);
  CHECK(story.sent.instance == 0);
}

TEST_CASE("once all workers are gone no deadline of theirs is left") {
  odd_story story;
  SECTION("after they were asked") {
    story.want(desired_phase::stop, 1);
    story.workers_end_by_signal(SIGTERM);
  }
  SECTION("after they were killed") {
    story.want(desired_phase::stop, 1);
    story.pass(5300ms);
    story.workers_end_by_signal(SIGKILL);
  }
  story.forget();
  const std::size_t before = story.statuses;
  story.pass(60s);
  CHECK_FALSE(story.did<kill_workers>());
  CHECK_FALSE(story.did<member_note>());
  CHECK(story.statuses == before + 60);
  CHECK(story.sent.unkillable == 0);
}

TEST_CASE("workers are asked once and killed once, however often it is wanted") {
  odd_story story;
  for (int times = 0; times < 3; ++times)
    story.want(desired_phase::stop, 1);
  CHECK(story.all<stop_workers>().size() == 1);
  for (int times = 0; times < 3; ++times)
    story.want(desired_phase::fence, 1);
  CHECK(story.all<kill_workers>().size() == 1);
  story.pass(100ms);
  story.want(desired_phase::fence, 1);
  story.pass(4500ms - 1ms);
  CHECK(story.sent.phase == member_phase::stopping);
  story.pass(1ms);
  CHECK(story.sent.phase == member_phase::stopped);
}

TEST_CASE("a worker that ends after it was killed is not asked any more") {
  odd_story story;
  story.want(desired_phase::fence, 1);
  story.want(desired_phase::stop, 1);
  CHECK_FALSE(story.did<stop_workers>());
}

TEST_CASE("an end of a worker counts once, for its own round, and only of workers that there are") {
  odd_story story;
  story.tell(worker_ended{2, 0, true, {}});
  story.tell(worker_ended{1, 2, true, {}});
  story.tell(worker_ended{1, 0, true, {}});
  story.tell(worker_ended{1, 0, true, {}});
  CHECK(story.sent.phase == member_phase::running);
  story.tell(worker_ended{1, 1, true, {}});
  CHECK(story.sent.phase == member_phase::succeeded);
}

TEST_CASE("workers are said to run only by the word of their own round, after they were started") {
  member_story story;
  story.connect();
  story.tell(workers_started{0});
  CHECK(story.machine().phase() == member_phase::joined);
  story.assign(1, 1, 2);
  story.reach_leader();
  story.tell(workers_started{2});
  CHECK(story.machine().phase() == member_phase::starting);
}

TEST_CASE("workers that succeed before all were started have succeeded") {
  member_story story;
  story.connect();
  story.assign(1, 1, 2);
  story.reach_leader();
  story.worker_succeeds(0);
  story.worker_succeeds(1);
  CHECK(story.sent.phase == member_phase::succeeded);
  story.tell(workers_started{1});
  CHECK(story.sent.phase == member_phase::succeeded);
}

TEST_CASE("a node of which one worker failed has failed, however the others end") {
  odd_story story;
  story.worker_fails(0);
  story.worker_succeeds(1);
  CHECK(story.sent.phase == member_phase::failed);
  // Nothing is left to be killed, and nothing is.
  story.lose_daemon();
  story.leader_answers = false;
  story.pass(7s);
  CHECK_FALSE(story.did<kill_workers>());
  CHECK(story.machine().phase() == member_phase::failed);
}

TEST_CASE("a worker that ends at the moment of our stop is a victim of it") {
  odd_story story;
  story.pass(1s);
  story.want(desired_phase::stop, 1);
  story.worker_fails(0, SIGTERM);
  story.worker_fails(1, SIGTERM);
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].by_our_stop);
  CHECK(story.sent.causes[0].local_rank == 0U);
}

TEST_CASE("whoever was asked first counts: a kill later makes nobody a victim of anything else") {
  odd_story story;
  story.want(desired_phase::stop, 1);
  story.pass(5300ms);
  REQUIRE(story.did<kill_workers>());
  cause why;
  why.kind = cause_class::signal;
  why.code = SIGKILL;
  why.age = 5s;  // after it was asked, before it was killed
  story.tell(worker_ended{1, 0, false, why});
  story.tell(worker_ended{1, 1, false, why});
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].by_our_stop);
}

TEST_CASE("a victim of the stop is not worth a status of its own") {
  odd_story story;
  story.want(desired_phase::stop, 1);
  const std::size_t before = story.statuses;
  story.worker_fails(0, SIGTERM);
  CHECK(story.statuses == before);
  story.worker_fails(1, SIGTERM);
  CHECK(story.statuses == before + 1);
}

TEST_CASE("a tail is cut at its front, at the beginning of a character") {
  odd_story story;
  cause why;
  why.kind = cause_class::exit;
  why.tail = "lost \xe2\x82\xac" + std::string(tail_bytes_max - 1, 'x');
  SECTION("too long by less than a character") {
    story.tell(worker_ended{1, 0, false, why});
    CHECK(story.sent.causes.at(0).tail == std::string(tail_bytes_max - 1, 'x'));
  }
  SECTION("as long as it may be") {
    why.tail = std::string(tail_bytes_max, 'y');
    story.tell(worker_ended{1, 0, false, why});
    CHECK(story.sent.causes.at(0).tail == why.tail);
  }
  SECTION("nothing but parts of characters") {
    why.tail = std::string(tail_bytes_max + 5, '\x82');
    story.tell(worker_ended{1, 0, false, why});
    CHECK(story.sent.causes.at(0).tail.empty());
  }
}

TEST_CASE("a cause names the place of its worker: rank, node, slot and round") {
  odd_story story;
  story.worker_fails(1, 7);
  REQUIRE(story.sent.causes.size() == 1);
  const cause& why = story.sent.causes[0];
  CHECK(why.local_rank == 1U);
  CHECK(why.rank == 3U);
  CHECK(why.slot == 1);
  CHECK(why.round == 1);
  CHECK(why.node == "node-b");
  CHECK(why.code == 7);
  CHECK(why.kind == cause_class::exit);
  CHECK_FALSE(why.by_our_stop);
}

TEST_CASE(
    "a store that ends while its round is on is a failure to start; when it is over, nothing") {
  member_story story;
  story.run_as_leader(2);
  story.forget();
  SECTION("while it is on") {
    story.tell(service_failed{1, "out of descriptors"});
    CHECK(story.sent.phase == member_phase::failed);
    REQUIRE(story.sent.causes.size() == 1);
    CHECK(story.sent.causes[0].kind == cause_class::start);
    CHECK(story.sent.service_port == 0);
    story.tell(service_failed{1, "again"});
    CHECK(story.sent.causes.size() == 1);
    story.want(desired_phase::stop, 1);
    story.workers_end_by_signal(SIGTERM);
    CHECK_FALSE(story.did<close_service>());  // it has closed itself
  }
  SECTION("when the workers have succeeded") {
    story.worker_succeeds(0);
    story.worker_succeeds(1);
    story.tell(service_failed{1, "out of descriptors"});
    CHECK(story.sent.phase == member_phase::succeeded);
    CHECK(story.sent.causes.empty());
  }
  SECTION("while it is stopped") {
    story.want(desired_phase::stop, 1);
    story.tell(service_failed{1, "out of descriptors"});
    CHECK(story.sent.phase == member_phase::stopping);
    CHECK(story.sent.causes.empty());
  }
}

TEST_CASE("a leader closes its service when its round is over, once, and says no port any more") {
  member_story story;
  story.run_as_leader(2);
  story.forget();
  story.want(desired_phase::stop, 1);
  CHECK_FALSE(story.did<close_service>());
  story.workers_end_by_signal(SIGTERM);
  REQUIRE(story.all<close_service>().size() == 1);
  CHECK(story.all<close_service>()[0].round == 1);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.service_port == 0);
  CHECK(story.sent.master_port == 0);
  CHECK(story.sent.nccl_ids.empty());
  story.want(desired_phase::wait, 1);
  story.want(desired_phase::close, 1);
  CHECK(story.all<close_service>().size() == 1);
  CHECK(story.left);
}

TEST_CASE("a round knows nothing of how the last one ended") {
  odd_story story;
  story.worker_fails(0);
  story.want(desired_phase::stop, 1);
  story.pass(5300ms + 4600ms);
  REQUIRE(story.sent.unkillable == 1);
  story.worker_fails(1, SIGKILL);
  story.assign(2, 1, 2);
  story.reach_leader();
  story.tell(workers_started{2});
  CHECK(story.sent.phase == member_phase::running);
  CHECK(story.sent.unkillable == 0);
  CHECK(story.sent.causes.empty());
  story.pass(20s);
  story.forget();
  story.worker_fails(0, 9);
  CHECK(story.sent.phase == member_phase::failed);
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].code == 9);
  CHECK(story.sent.causes[0].round == 2);
  story.want(desired_phase::stop, 2);
  CHECK(story.did<stop_workers>());
  CHECK(until<kill_workers>(story) == 5300ms);
  story.worker_fails(1, SIGKILL);
  CHECK(story.sent.phase == member_phase::stopped);
}

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
  SECTION("the word") {
    story.pass(500ms);
    story.worker_fails(0);
    story.pass(20s);  // answered all the while
    CHECK_FALSE(story.did<stop_workers>());
    story.lose_daemon();
    const duration waited = until<stop_workers>(story);
    CHECK(waited <= limit);
    CHECK(waited >= limit - story.timing.heartbeat_interval);
  }
}

TEST_CASE("isolation is the cause of an end only where nobody had asked for it") {
  odd_story story;
  story.pass(2s);
  story.daemon_answers = false;
  story.leader_answers = false;
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
  member_story story;
  story.daemon_answers = false;
  story.connect();
  story.pass(1s);
  desired order = story.order(desired_phase::prepare, 1);
  order.group_world_size = 2;
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
  story.leader_answers = false;
  until<kill_workers>(story);
  REQUIRE(story.did<kill_workers>());
  story.workers_end_by_signal(SIGKILL);
  story.pass(story.timing.join_timeout - 1ms);
  CHECK_FALSE(story.left);
  story.pass(1ms);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 1);
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
    story.daemon_answers = false;
    const duration waited = until<leave>(story);
    CHECK(waited == timing.isolation_limit * 98 / 100);
  }
  SECTION("a loop that was late: as much longer") {
    story.freeze(3s);
    story.tell(member_loop_was_late{3s});
    story.pass(patience - 1ms);
    CHECK_FALSE(story.left);
    story.pass(1ms);
    CHECK(story.left);
  }
}

TEST_CASE("a node that has done its part stays for the close when it is asked to leave") {
  member_story story;
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
  SECTION("kill_wait") {
    story.want(desired_phase::fence, 1);
    story.freeze(3s);
    story.tell(member_loop_was_late{3s});
    story.pass(4600ms - 1ms);
    CHECK(story.sent.phase == member_phase::stopping);
    story.pass(1ms);
    CHECK(story.sent.phase == member_phase::stopped);
  }
  SECTION("the silence of the daemon") {
    story.daemon_answers = false;
    story.pass(1s);
    story.freeze(2s);
    story.tell(member_loop_was_late{2s});
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
    story.tell(member_loop_was_late{500ms});
    CHECK(until<stop_workers>(story) == story.timing.isolation_limit * 98 / 100);
  }
  SECTION("join_timeout") {
    member_story waiting;
    waiting.lose_daemon();
    waiting.freeze(3s);
    waiting.tell(member_loop_was_late{3s});
    waiting.pass(waiting.timing.join_timeout - 1ms);
    CHECK_FALSE(waiting.left);
    waiting.pass(1ms);
    CHECK(waiting.left);
  }
  SECTION("a member's time to reach its leader") {
    member_story dialling;
    dialling.connect();
    dialling.assign(1, 1, 2);
    dialling.freeze(3s);
    dialling.tell(member_loop_was_late{3s});
    dialling.pass(30s - 1ms);
    CHECK(dialling.machine().phase() == member_phase::assigned);
    dialling.pass(1ms);
    CHECK(dialling.machine().phase() == member_phase::failed);
  }
}

TEST_CASE("a loop that was late by a heartbeat asks at once; by nothing, or less, is no news") {
  odd_story story;
  const std::size_t before = story.statuses;
  story.tell(member_loop_was_late{0s});
  story.tell(member_loop_was_late{-5s});
  story.tell(member_loop_was_late{story.timing.heartbeat_interval - 1ms});
  CHECK(story.statuses == before);
  story.tell(member_loop_was_late{story.timing.heartbeat_interval});
  CHECK(story.statuses == before + 1);
}

TEST_CASE("being late again and again keeps nobody alive that nobody vouches for") {
  odd_story story;
  story.daemon_answers = false;
  story.leader_answers = false;
  const time_point from = story.now();
  while (!story.did<kill_workers>() && story.now() < from + 60s) {
    story.freeze(100ms);
    story.tell(member_loop_was_late{100ms});
    story.pass(0ms);
    story.tell(member_time_passed{});
  }
  CHECK(story.now() <= from + story.timing.isolation_limit + 2 * story.timing.heartbeat_interval);
}
