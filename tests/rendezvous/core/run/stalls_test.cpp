// Ranks that stand still on all nodes of a round: DESIGN.md, rule 15.
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"

#include <string>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

stall waiting(std::uint32_t first, std::uint32_t last) {
  return {21s, false, {{first, last, stall_kind::waits, "waited in all_reduce"}}};
}

stall elsewhere(std::uint32_t rank) {
  return {25s, false, {{rank, rank, stall_kind::elsewhere, "stood in forward (train.py:9)"}}};
}

// a and b, two workers each; a leads.
struct stall_story : pair_story {
  stall_story() : pair_story(nodes_of(2, 2)) {}
  void stand(fake_node& who, std::optional<stall> seen) {
    who.state.stall = std::move(seen);
    say(who);
  }
};

const std::string sentence =
    "no rank of this run has moved for 21 s: rank 2 stood in forward (train.py:9) while ranks 0 "
    "and 1 waited in all_reduce";

}  // namespace

TEST_CASE("when all nodes say that their ranks stand, the rank that the others wait for is named") {
  stall_story story;
  story.stand(*story.a, waiting(0, 1));
  story.pass(60s);
  CHECK_FALSE(story.a->wanted.hung);  // the ranks of b move
  story.stand(*story.b, elsewhere(2));
  CHECK_FALSE(story.b->wanted.hung);
  story.pass(3s);
  REQUIRE(story.b->wanted.hung);
  CHECK(story.b->wanted.phase == desired_phase::run);
  CHECK(story.b->wanted.assignment == story.b->state.assignment);
  CHECK(*story.b->wanted.hung == hung_rank{2, sentence});
  REQUIRE(story.a->wanted.hung);  // it leads
  CHECK(*story.a->wanted.hung == hung_rank{2, "rank 2 hangs: " + sentence});
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE(
    "while all ranks stand still it is shown which one hangs, and what the nodes say together") {
  stall_story story;
  CHECK_FALSE(story.view().stall);
  story.stand(*story.a, waiting(0, 1));
  CHECK_FALSE(story.view().stall);  // the ranks of b move
  story.stand(*story.b, elsewhere(2));
  REQUIRE(story.view().stall);
  CHECK(story.view().stall->rank == 2U);
  CHECK(story.view().stall->stood == 21s);
  CHECK(story.view().stall->text == "rank 2 hangs: " + sentence);
  CHECK_THAT(story.view().why, Contains(" runs; rank 2 hangs: " + sentence + "; for "));
  story.stand(*story.a, std::nullopt);
  CHECK_FALSE(story.view().stall);
  CHECK_THAT(story.view().why, !Contains("hangs"));
}

TEST_CASE("what a node can tell of its own ranks is shown while others move") {
  stall_story story;
  stall own = elsewhere(2);
  own.is_learnt = true;
  story.stand(*story.b, own);
  CHECK_FALSE(story.view().stall);  // rank 3 is not reported: it may be waiting for a
  own.ranks.push_back(waiting(3, 3).ranks[0]);
  story.stand(*story.b, own);
  REQUIRE(story.view().stall);
  CHECK(story.view().stall->rank == 2U);
  CHECK(story.view().stall->text ==
        "rank 2 hangs: no rank of b has moved for 25 s: rank 2 stood in forward (train.py:9) while "
        "rank 3 waited in all_reduce");
  story.fail(*story.a, 1);
  CHECK_FALSE(story.view().stall);  // the round is being stopped
}

TEST_CASE("a round of one node is shown with what that says, though it judges by itself") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 1));
  story.start_round();
  stall own = waiting(0, 0);
  own.is_learnt = true;
  a.state.stall = own;
  story.say(a);
  story.pass(3s);
  CHECK_FALSE(a.wanted.hung);
  REQUIRE(story.view().stall);
  CHECK(story.view().stall->rank == 0U);
  CHECK(story.view().stall->text ==
        "rank 0 hangs: no rank of this run has moved for 21 s: rank 0 waited in all_reduce");
  a.state.stall->ranks = {{0, 0, stall_kind::unseen, "gave no stack"}};
  story.say(a);
  CHECK_FALSE(story.view().stall->rank);
  CHECK(story.view().stall->text ==
        "no rank of this run has moved for 21 s; cannot tell which rank hangs");
}

TEST_CASE("that is said once, and again only when a rank has moved meanwhile") {
  stall_story story;
  story.stand(*story.a, waiting(0, 1));
  story.stand(*story.b, elsewhere(2));
  story.pass(3s);
  const std::size_t told = story.b->desired_count;
  story.pass(60s);
  CHECK(story.b->desired_count == told);
  story.stand(*story.b, std::nullopt);
  story.stand(*story.b, elsewhere(2));
  story.pass(3s);
  CHECK(story.b->desired_count == told + 1);
}

TEST_CASE("while one node says nothing, is away or moves again, no rank is named") {
  stall_story story;
  story.stand(*story.a, waiting(0, 1));
  SECTION("moves again before all are looked at") {
    story.stand(*story.b, elsewhere(2));
    story.stand(*story.a, std::nullopt);
  }
  SECTION("away") {
    story.stand(*story.b, elsewhere(2));
    story.disconnect(*story.b);
  }
  SECTION("says it of another node's ranks") {
    story.stand(*story.b, elsewhere(0));
  }
  story.pass(1500ms);
  CHECK_FALSE(story.a->wanted.hung);
  CHECK_FALSE(story.b->wanted.hung);
}

TEST_CASE("while a node cannot see its ranks none is named, and the log says where all stood") {
  stall_story story;
  const stall blind{30s, false, {{0, 1, stall_kind::unseen, "gave no stack"}}};
  story.stand(*story.a, blind);
  story.stand(*story.b, elsewhere(2));
  story.pass(10s);
  CHECK_FALSE(story.a->wanted.hung);
  CHECK_FALSE(story.b->wanted.hung);
  CHECK_THAT(story.notes.back(), Contains("no rank of this run has moved for 25 s: rank 2 stood") &&
                                     Contains("cannot tell which rank hangs"));
}

TEST_CASE("a node whose workers have succeeded waits for no other") {
  stall_story story;
  story.stand(*story.b, elsewhere(2));
  story.say(*story.a, member_phase::succeeded);
  story.pass(3s);
  REQUIRE(story.b->wanted.hung);  // by a limit that a person has set
  CHECK(story.b->wanted.hung->rank == 2);
}

TEST_CASE("a limit that one node has learnt needs a rank that waits in a collective") {
  stall_story story;
  stall own = elsewhere(0);
  own.is_learnt = true;
  story.stand(*story.a, own);
  story.stand(*story.b, elsewhere(2));
  story.pass(3s);
  CHECK_FALSE(story.b->wanted.hung);
}

TEST_CASE("a node that says nonsense of its ranks is cut off") {
  stall_story story;
  stall nonsense = elsewhere(3);
  SECTION("backwards") {
    nonsense.ranks[0].last = 2;
  }
  SECTION("too much") {
    nonsense.ranks.resize(stalled_ranks_max + 1);
  }
  story.stand(*story.b, nonsense);
  CHECK(story.b->connection == 0);
  CHECK_FALSE(story.b->refusal.empty());
}

TEST_CASE("what was said in one round is nothing in the next") {
  stall_story story;
  story.stand(*story.a, waiting(0, 1));
  story.stand(*story.b, elsewhere(2));
  story.pass(3s);
  story.a->state.stall.reset();
  story.b->state.stall.reset();
  story.fail(*story.b, 1);
  story.stop_all();
  story.pass(1s);
  story.start_round();
  CHECK(story.view().round == 2);
  CHECK_FALSE(story.b->wanted.hung);
  story.stand(*story.a, waiting(0, 1));
  story.stand(*story.b, elsewhere(2));
  story.pass(3s);
  CHECK(story.b->wanted.hung);
}
