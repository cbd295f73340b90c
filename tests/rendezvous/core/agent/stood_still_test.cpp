// An agent whose loop stands still: how long its guardian lets its workers live, and what the
// machine does when it learns that they were killed.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

TEST_CASE("workers may live until the machine itself would end them") {
  agent_story story;
  CHECK_FALSE(story.machine().workers_live_until());
  story.run_as_member();
  const auto first = story.machine().workers_live_until();
  REQUIRE(first);
  SECTION("each answer moves it") {
    story.pass(5s);
    CHECK(*story.machine().workers_live_until() >= *first + 4s);
  }
  SECTION("without an answer it stays where it is, and the machine acts on it") {
    story.lose_daemon();
    story.leader_acks = false;
    story.pass(2s);
    const auto last = story.machine().workers_live_until();
    REQUIRE(last);
    CHECK(*last <= story.now() + story.timing.isolation_limit);
    story.pass(*last - story.now());
    CHECK(story.did<kill_workers>());
    CHECK_FALSE(story.machine().workers_live_until());
  }
  SECTION("without workers there is none") {
    story.worker_fails(0);
    story.worker_fails(1);
    CHECK_FALSE(story.machine().workers_live_until());
  }
}

TEST_CASE("a node alone is no danger to anybody for as long as no daemon may start a round") {
  agent_story story;
  story.run_as_leader(1);
  const auto limit = story.machine().workers_live_until();
  REQUIRE(limit);
  CHECK(*limit > story.now() + story.timing.orphan_limit / 2);
}

TEST_CASE("the only node of a run whose daemon it holds goes on wherever it was") {
  agent_story story;
  story.daemon_is_here = true;
  story.run_as_leader(1);
  CHECK_FALSE(story.machine().workers_live_until());
}

TEST_CASE("workers that the guardian has killed end as after an isolation") {
  agent_story story;
  story.run_as_member();
  story.freeze(60s);
  story.tell(agent_loop_was_late{60s});
  story.tell(killed_by_guardian{1});
  CHECK(story.did<kill_workers>());
  story.worker_ends_by(0, 9, 30s);  // noticed before the guardian's report
  story.worker_ends_by(1, 9);
  CHECK(story.machine().phase() == member_phase::stopped);
  REQUIRE_FALSE(story.sent.causes.empty());
  CHECK(story.sent.causes.front().kind == cause_class::node_lost);
  CHECK(story.sent.causes.front().text.starts_with(
      "this ddprun was suspended (by SIGSTOP, Ctrl-Z, a debugger or a hanging disk) for longer "
      "than isolation_limit (8 s): its guardian process has killed the workers"));
  for (const cause& each : story.sent.causes)
    CHECK(each.by_our_stop);
}

TEST_CASE("a guardian's report about another round, or a second one, changes nothing") {
  agent_story story;
  story.run_as_member();
  story.tell(killed_by_guardian{0});
  CHECK_FALSE(story.did<kill_workers>());
  story.tell(killed_by_guardian{1});
  story.forget();
  story.tell(killed_by_guardian{1});
  CHECK_FALSE(story.did<kill_workers>());
}

TEST_CASE("where the workers are is known until the daemon hears that they have ended") {
  agent_story story;
  CHECK_FALSE(story.machine().group_rank_of_workers());
  story.run_as_member();
  const auto membership = story.machine().group_rank_of_workers();
  REQUIRE(membership);
  CHECK(membership->round == 1);
  CHECK(membership->group_rank == 1);
  SECTION("also while they are being stopped") {
    story.worker_fails(0);
    CHECK(story.machine().group_rank_of_workers() == membership);
  }
  SECTION("nowhere, once they have succeeded") {
    story.worker_succeeds(0);
    story.worker_succeeds(1);
    CHECK_FALSE(story.machine().group_rank_of_workers());
  }
}

TEST_CASE("a node alone has no membership beside those of others") {
  agent_story story;
  story.run_as_leader(1);
  CHECK_FALSE(story.machine().group_rank_of_workers());
}
