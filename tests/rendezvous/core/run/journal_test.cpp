// What a run asks to be kept, and what waits for that.
#include "tests/support/catch.hpp"
#include "tests/support/journal_story.hpp"

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

TEST_CASE("without a journal nothing is asked to be kept, and nothing waits") {
  pair_story story;
  CHECK(story.times_kept == 0);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("a run on a new daemon with a journal waits for nobody") {
  run_story story(keeping());
  fake_node& only = story.joined("a", nodes_of(1, 1));
  CHECK(only.wanted.phase == desired_phase::prepare);
  REQUIRE(story.kept);
  CHECK(story.kept->instance == 100);
  CHECK(story.kept->nodes == 1);
  CHECK(story.kept->rounds_reserved >= 8);
  CHECK_FALSE(story.kept->end);
}

TEST_CASE("workers are started when it is kept that they may run, and not before") {
  run_story story(keeping());
  story.disk_answers = false;
  fake_node& only = story.joined("a", nodes_of(1, 1));
  story.start_round();
  CHECK(only.wanted.phase == desired_phase::prepare);
  story.pass(300ms);
  CHECK(only.wanted.phase == desired_phase::prepare);
  CHECK(story.why().find("waiting for the disk") != std::string::npos);
  story.disk_answers_now();
  CHECK(only.wanted.phase == desired_phase::run);
}

TEST_CASE("a failure is charged in the record when it is reported, so that no restart waits") {
  run_story story(keeping());
  fake_node& a = story.joined("a", nodes_of(2, 2));
  fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  CHECK(story.kept->restarts_used == 0);
  story.disk_answers = false;
  story.fail(b, 1);
  CHECK(story.kept->restarts_used == 1);
  const std::size_t times = story.times_kept;
  story.disk_answers_now();
  story.stop_all();
  story.start_round();
  CHECK(a.wanted.phase == desired_phase::run);
  CHECK(a.wanted.round == 2);
  CHECK(story.times_kept == times);
}

TEST_CASE("what proves free of charge is taken back") {
  run_story story(keeping());
  story.joined("a", nodes_of(1, 2));
  fake_node& b = story.joined("b", nodes_of(1, 2));
  story.start_round();
  story.fail(b, 1);
  CHECK(story.kept->restarts_used == 1);
  story.disconnect(b);
  story.pass(30s);
  // The node died, and its worker with it: no failure of the worker's.
  CHECK(story.view().restarts_used == story.kept->restarts_used);
}

TEST_CASE("numbers of rounds are reserved ahead, and no round has one that is not") {
  run_story story(keeping());
  fake_node& only = story.joined("a", nodes_of(1, 1, 100));
  for (int turn = 0; turn < 60; ++turn) {
    story.start_round();
    REQUIRE(only.wanted.phase == desired_phase::run);
    CHECK(only.wanted.round < story.kept->rounds_reserved);
    const round_number reserved = story.kept->rounds_reserved;
    story.fail(only, 1);
    story.stop_all();
    // A restart never needs a new block: that was written while the round before it ran.
    CHECK(story.kept->rounds_reserved == reserved);
  }
}

TEST_CASE("an end is decided, kept, told") {
  run_story story(keeping());
  fake_node& only = story.joined("a", nodes_of(1, 1));
  story.start_round();
  story.disk_answers = false;
  story.say(only, member_phase::succeeded);
  CHECK(story.view().phase == run_phase::closed);
  REQUIRE(story.kept->end);
  CHECK(story.kept->end->exit_code == 0);
  CHECK(only.wanted.phase == desired_phase::run);
  SECTION("to who is here") {
    story.disk_answers_now();
    CHECK(only.wanted.phase == desired_phase::close);
    CHECK(only.wanted.exit_code == 0);
  }
  SECTION("to who comes back meanwhile") {
    story.disconnect(only);
    story.connect(only);
    CHECK(only.wanted.phase == desired_phase::run);
    story.disk_answers_now();
    CHECK(only.wanted.phase == desired_phase::close);
  }
}

TEST_CASE("a run in which nobody was placed is forgotten with its nodes") {
  run_story story(keeping());
  fake_node& only = story.joined("a", nodes_of(2, 2));
  REQUIRE(story.kept);
  story.goodbye(only);
  CHECK_FALSE(story.kept);
  CHECK(story.machine().forgettable(story.now));
}
