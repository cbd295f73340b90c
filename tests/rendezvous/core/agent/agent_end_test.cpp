// How workers end at a node: which cause is reported, what people are told, and what is left for
// the next round.
#include "tests/support/catch.hpp"
#include "tests/support/odd_story.hpp"

#include <algorithm>
#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using namespace ddprun::tests;

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
  CHECK(story.sent.instance == agent_story::instance);
  // A worker that ends after all is reported, and none is killed again.
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
  CHECK_FALSE(story.did<agent_note>());
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

TEST_CASE("workers count as running only by a report of their own round, after they were started") {
  agent_story story;
  story.connect();
  story.tell(workers_started{0});
  CHECK(story.machine().phase() == member_phase::joined);
  story.assign(1, 1, 2);
  story.reach_leader();
  story.tell(workers_started{2});
  CHECK(story.machine().phase() == member_phase::starting);
}

TEST_CASE("workers that succeed before all were started have succeeded") {
  agent_story story;
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
  // No worker is left to be killed, and none is.
  story.lose_daemon();
  story.leader_acks = false;
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

TEST_CASE(
    "the first request to end counts: a later kill makes no worker a victim of anything else") {
  odd_story story;
  story.want(desired_phase::stop, 1);
  story.pass(5300ms);
  REQUIRE(story.did<kill_workers>());
  // After SIGTERM, before SIGKILL.
  story.worker_ends_by(0, SIGKILL, 5s);
  story.worker_ends_by(1, SIGKILL, 5s);
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].by_our_stop);
}

TEST_CASE("a worker that our stop ended causes no status of its own") {
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

TEST_CASE("a cause names the place of its worker: rank, node, group rank and round") {
  odd_story story;
  story.worker_fails(1, 7);
  REQUIRE(story.sent.causes.size() == 1);
  const cause& why = story.sent.causes[0];
  CHECK(why.local_rank == 1U);
  CHECK(why.rank == 3U);
  CHECK(why.group_rank == 1);
  CHECK(why.round == 1);
  CHECK(why.node == "node-b");
  CHECK(why.code == 7);
  CHECK(why.kind == cause_class::exit);
  CHECK_FALSE(why.by_our_stop);
}

TEST_CASE(
    "a store that ends while its round is on is a failure to start; when it is over, nothing") {
  agent_story story;
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
    CHECK_FALSE(story.did<close_service>());  // it has closed by itself
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
  agent_story story;
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
  CHECK(story.sent.leader_data == leader_data{});
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

TEST_CASE("the last output of a worker that our stop ended is not reported") {
  odd_story story;
  story.want(desired_phase::stop, 1);
  cause why;
  why.kind = cause_class::signal;
  why.code = SIGTERM;
  why.tail = "interrupted";
  story.tell(worker_ended{1, 0, false, why});
  story.tell(worker_ended{1, 1, false, why});
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].tail.empty());
}

TEST_CASE("a node alone without its daemon runs on to its last worker") {
  agent_story story;
  story.run_as_leader(1);
  story.lose_daemon();
  story.worker_succeeds(0);
  story.forget();
  story.pass(60s);
  CHECK_FALSE(story.did<kill_workers>());
  story.worker_succeeds(1);
  CHECK(story.machine().phase() == member_phase::succeeded);
}

TEST_CASE("a node that waits has no assignment, and reports none") {
  odd_story story;
  story.want(desired_phase::stop, 1);
  story.workers_end_by_signal(SIGTERM);
  story.want(desired_phase::wait, 1);
  story.lose_daemon();
  story.connect();
  CHECK_FALSE(story.sent.assignment);
}

TEST_CASE("a node that is stopped after its workers had succeeded says both") {
  odd_story story;
  story.worker_succeeds(0);
  story.worker_succeeds(1);
  CHECK_FALSE(story.sent.succeeded);  // its phase says it
  story.want(desired_phase::stop, 1);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.succeeded);
  // That is said of that round only.
  story.want(desired_phase::wait, 1);
  CHECK_FALSE(story.sent.succeeded);
  story.assign(2, 1, 2);
  story.reach_leader();
  story.want(desired_phase::stop, 2);
  story.workers_end_by_signal(SIGTERM);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK_FALSE(story.sent.succeeded);
}

TEST_CASE("a worker that ends well when it is asked to was stopped, before that it succeeded") {
  odd_story story;
  story.worker_succeeds(0);
  story.want(desired_phase::stop, 1);
  story.worker_succeeds(1);
  const std::vector<ended_ranks>& told = story.sent.ends;
  REQUIRE(told.size() == 2);
  CHECK((told[0].how == ending::stopped && told[0].first == 3 && told[0].last == 3));
  CHECK((told[1].how == ending::succeeded && told[1].first == 2 && told[1].last == 2));
}

TEST_CASE("how each worker ended is told with after how long, and with what") {
  odd_story story;
  story.pass(500ms);
  story.worker_succeeds(0);
  story.pass(700ms);
  story.worker_fails(1);
  story.want(desired_phase::stop, 1);
  const std::vector<ended_ranks>& told = story.sent.ends;
  REQUIRE(told.size() == 2);
  REQUIRE((told[0].how == ending::failed && told[0].after && told[1].after));
  CHECK(told[0].after->first == told[0].after->last);
  CHECK(told[1].after->first >= 500ms);
  CHECK(told[0].after->first - told[1].after->first == 700ms);
  CHECK(told[0].code == 3);
  CHECK(told[1].code == 0);
}
