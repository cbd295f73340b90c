// Ranks of a node that stand still, as its agent reports it and is told of it: DESIGN.md, rule 15.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::agent_story;

namespace {

const stall standing{20s, false, {{2, 3, stall_kind::waits, "waited in all_reduce"}}};

// A node with ranks 2 and 3.
struct stall_story : agent_story {
  stall_story() { run_as_member(); }
  void hear_of(std::uint32_t rank, round_number round = 1) {
    desired value = order(desired_phase::run, round);
    value.hung = hung_rank{rank, "no rank of this run has moved for 20 s"};
    forget();
    say(value);
  }
};

}  // namespace

TEST_CASE("that no rank moves is said at once, and with each status until one moves") {
  stall_story story;
  CHECK_FALSE(story.sent.stall);
  story.tell(ranks_stalled{1, standing});
  CHECK(story.sent.stall == standing);
  story.pass(4s);
  REQUIRE(story.sent.stall);
  CHECK(story.sent.stall->age >= 23s);
  CHECK(story.sent.stall->ranks == standing.ranks);
  const std::size_t statuses = story.statuses;
  story.tell(ranks_stalled{1, std::nullopt});
  CHECK(story.statuses == statuses + 1);
  CHECK_FALSE(story.sent.stall);
  story.tell(ranks_stalled{1, std::nullopt});
  CHECK(story.statuses == statuses + 1);
}

TEST_CASE("it is said again on the next connection") {
  stall_story story;
  story.tell(ranks_stalled{1, standing});
  story.lose_daemon();
  story.pass(500ms);
  story.connect();
  CHECK(story.greeted.state.stall.has_value());
}

TEST_CASE("what is of another round, or of workers that end, is not said") {
  stall_story story;
  story.tell(ranks_stalled{2, standing});
  CHECK_FALSE(story.sent.stall);
  story.tell(ranks_stalled{1, standing});
  story.worker_fails(0);
  CHECK(story.sent.phase == member_phase::failed);
  CHECK_FALSE(story.sent.stall);
}

TEST_CASE("a rank that hangs is handed on, and one of another node is said, too") {
  stall_story story;
  story.hear_of(3);
  REQUIRE(story.all<name_hung>().size() == 1);
  CHECK(story.all<name_hung>().front().round == 1);
  CHECK(story.all<name_hung>().front().who.rank == 3);
  CHECK(story.all<name_hung>().front().is_here);
  CHECK_FALSE(story.did<agent_note>());
  CHECK(story.machine().phase() == member_phase::running);
  for (const std::uint32_t rank : {1U, 4U}) {
    story.hear_of(rank);
    REQUIRE(story.did<name_hung>());
    CHECK_FALSE(story.all<name_hung>().front().is_here);
    REQUIRE(story.did<agent_note>());
    CHECK(story.all<agent_note>().front().text == "no rank of this run has moved for 20 s");
  }
}

TEST_CASE("of a hang nothing is heard twice, nor when the workers are being ended") {
  stall_story story;
  desired value = story.order(desired_phase::run, 1);
  value.hung = hung_rank{2, "hangs"};
  story.say(value);
  story.forget();
  story.say(value);
  CHECK_FALSE(story.did<name_hung>());
  story.want(desired_phase::stop, 1);
  story.hear_of(2);
  CHECK_FALSE(story.did<name_hung>());
}
