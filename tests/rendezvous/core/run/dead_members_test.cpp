// The agent in which an earlier daemon lived was killed with it: its guardian tells the next one
// where its workers were, so that nobody waits for them.
#include "rendezvous/core/run/dead_members.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

// Of member 0, which led round 7 and held the daemon.
guardian_reported word_of_leader(round_number round = 7, instance_id instance = 42) {
  return {{9, 9}, instance, round, 0};
}

}  // namespace

TEST_CASE("the others of a round go on at once where all of it are here or proven dead") {
  orphans_story story(2);
  const bool had_failed = GENERATE(false, true);
  if (had_failed) story.members[1]->state.phase = member_phase::failed;
  const bool is_first = GENERATE(true, false);
  if (is_first) story.step(word_of_leader());
  story.connect(*story.members[1]);
  if (!is_first) {
    CHECK(story.members[1]->desired_count == 0);
    story.step(word_of_leader());
  }
  CHECK(story.members[1]->wanted.phase == desired_phase::stop);
  CHECK(story.members[1]->wanted.text ==
        "the rendezvous daemon was restarted and 1 of 2 nodes of round 7 have not come back");
  story.stop_all();
  story.pass(1s);
  CHECK(story.members[1]->wanted.phase == desired_phase::prepare);
  CHECK(story.view().round > 7);
  CHECK(story.view().restarts_used == 2);
}

TEST_CASE("a member that is still to come is waited for, beside one that is proven dead") {
  orphans_story story(3);
  story.connect(*story.members[1]);
  story.step(word_of_leader());
  CHECK(story.members[1]->desired_count == 0);
  SECTION("until it is here") {
    story.connect(*story.members[2]);
  }
  SECTION("for the window, and then until no worker of it can live") {
    story.pass(10s);
    story.stop_all();
    story.pass(7s);
    CHECK(story.view().round == 7);
    story.pass(10s);
  }
  story.stop_all();
  story.pass(1s);
  CHECK(story.members[1]->wanted.phase == desired_phase::prepare);
}

TEST_CASE("the word that comes while the round stops ends the wait for that node") {
  orphans_story story(2);
  story.connect(*story.members[1]);
  story.pass(10s);
  story.stop_all();
  story.pass(1s);
  CHECK(story.view().round == 7);
  story.step(word_of_leader());
  story.pass(1s);
  CHECK(story.view().round > 7);
}

TEST_CASE("a word about another round or instance, or about none, proves nothing") {
  orphans_story story(2);
  const guardian_reported word = GENERATE(word_of_leader(6), word_of_leader(8),
                                          word_of_leader(7, 41), guardian_reported{{9, 9}});
  story.step(word);
  story.connect(*story.members[1]);
  CHECK(story.members[1]->desired_count == 0);
  story.pass(10s);
  story.stop_all();
  story.pass(15s);
  CHECK(story.view().round == 7);
}

TEST_CASE("a round whose other node was killed at its work has not ended well") {
  orphans_story story(2);
  story.members[1]->state.phase = member_phase::succeeded;
  story.connect(*story.members[1]);
  story.step(word_of_leader());
  CHECK(story.view().phase != run_phase::closed);
  story.stop_all();
  story.pass(1s);
  CHECK(story.view().round > 7);
}

TEST_CASE("of dead members a bounded number is remembered") {
  dead_members dead;
  for (std::uint32_t group_rank = 0; group_rank < 2 * dead_members_max; ++group_rank)
    dead.add({1, 2, group_rank});
  CHECK(dead.count() == dead_members_max);
  CHECK(dead.contains({1, 2, 0}));
  CHECK_FALSE(dead.contains({1, 3, 0}));
  CHECK(dead.has_any_of(1, 2));
  CHECK_FALSE(dead.has_any_of(1, 1));
  CHECK_FALSE(dead.has_any_of(0, 2));
}
