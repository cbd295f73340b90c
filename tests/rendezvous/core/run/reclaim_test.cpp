// Nodes of a newer round than the one that a restarted daemon has found, which come back late.
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

// Round 7 was on when a node that only waited was cut off together with the daemon's host; the
// daemon died there, and its follower has found that node alone. Two others run round 8.
struct outdated_story : orphans_story {
  outdated_story() : orphans_story(2, nodes_of(2, 4)) {
    for (fake_node* const member : members)
      member->state.round = 8;
    spare = &node("spare", settings);
    spare->state.instance = 42;
    spare->state.round_told = 7;
    connect(*spare);
    pass(11s);
    REQUIRE(view().phase == run_phase::stopping);
    REQUIRE(view().round == 7);
  }
  void all_come() {
    for (fake_node* const member : members)
      connect(*member);
  }
  fake_node* spare = nullptr;
};

}  // namespace

TEST_CASE("a newer round than the found one is kept when all its nodes come back") {
  outdated_story story;
  SECTION("while the found one is being stopped") {}
  SECTION("when that is over, and too few nodes are here") {
    story.pass(610s);
    REQUIRE(story.view().phase == run_phase::gathering);
  }
  story.connect(*story.members[0]);
  CHECK(story.why().find("nodes that run a round have come") == 0);
  CHECK(story.members[0]->desired_count == 0);
  CHECK(story.members[0]->answered == story.members[0]->state.seq);
  story.connect(*story.members[1]);
  CHECK(story.view().phase == run_phase::running);
  CHECK(story.view().round == 8);
  CHECK(story.view().instance == 42);
  for (const fake_node* const member : story.members)
    CHECK(member->wanted.phase == desired_phase::run);
  SECTION("and nothing of the found one is left") {
    story.pass(60s);
    CHECK(story.view().phase == run_phase::running);
    for (fake_node* const member : story.members)
      story.say(*member, member_phase::succeeded);
    CHECK(story.view().phase == run_phase::closed);
    CHECK(story.view().exit_code == 0);
  }
}

TEST_CASE("a newer round than the found one of which all have succeeded ends the run well") {
  outdated_story story;
  for (fake_node* const member : story.members)
    member->state.phase = member_phase::succeeded;
  SECTION("all come back") {
    story.all_come();
  }
  SECTION("one does not, in another window") {
    story.connect(*story.members[0]);
    story.pass(9s);
    CHECK(story.view().phase == run_phase::gathering);
    story.pass(2s);
  }
  CHECK(story.view().phase == run_phase::closed);
  CHECK(story.view().exit_code == 0);
  CHECK(story.members[0]->wanted.phase == desired_phase::close);
  CHECK(story.spare->wanted.phase == desired_phase::close);
}

TEST_CASE("a newer round than the found one is ended where one of its nodes does not come back") {
  outdated_story story;
  story.connect(*story.members[0]);
  story.pass(11s);
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(story.view().round == 8);
  CHECK(story.members[0]->wanted.phase == desired_phase::stop);
  CHECK(story.members[0]->wanted.round == 8);
  story.stop_all();
  story.pass(7s);
  CHECK(story.view().round == 8);
  story.pass(3s);
  // The earlier daemon may have chosen one more.
  CHECK(story.view().round == 10);
  CHECK(story.view().restarts_used == 2);
}

TEST_CASE("members of the found round end when a newer one shows up") {
  orphans_story story(3);
  fake_node& old = *story.members[0];
  old.state.round = 6;
  story.connect(old);
  story.pass(11s);
  REQUIRE(old.wanted.phase == desired_phase::stop);
  REQUIRE(old.wanted.round == 6);
  const std::uint64_t answered = old.answered;
  story.connect(*story.members[1]);
  story.say(old);
  CHECK(old.answered == answered);
  story.pass(5s);
  story.connect(*story.members[2]);
  story.pass(6s);
  CHECK(story.view().round == 7);
  CHECK(old.wanted.phase == desired_phase::fence);
  CHECK(story.members[1]->wanted.phase == desired_phase::stop);
}

TEST_CASE("a round that somebody named who is gone again is waited for") {
  orphans_story story(2);
  story.members[0]->state.round = 8;
  story.connect(*story.members[0]);
  story.disconnect(*story.members[0]);
  fake_node& waiting = story.node("w", story.settings);
  waiting.state.instance = 42;
  SECTION("one that only waited is here") {}
  SECTION("one of an older round is here") {
    story.connect(*story.members[1]);
  }
  story.connect(waiting);
  story.pass(11s);
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(story.view().round == 8);
  story.pass(580s);
  CHECK(story.view().round == 8);
  story.pass(30s);
  CHECK(story.view().round == 10);
}

TEST_CASE("a node that names ever newer rounds delays the run for so many windows only") {
  outdated_story story;
  fake_node& liar = *story.members[0];
  for (int time = 0; time < 8; ++time) {
    liar.state.round += 2;
    story.connect(liar);
    CHECK(story.view().phase == run_phase::gathering);
    story.disconnect(liar);
    story.pass(11s);
    CHECK(story.view().phase == run_phase::stopping);
  }
  liar.state.round += 2;
  story.connect(liar);
  CHECK(liar.wanted.phase == desired_phase::fence);
  CHECK(story.view().phase == run_phase::stopping);
}

TEST_CASE("from an operator's stop on nothing gives way any more") {
  orphans_story story(3);
  story.connect(*story.members[0]);
  story.pass(11s);
  REQUIRE(story.members[0]->wanted.phase == desired_phase::stop);
  story.step(core::operator_stop_requested{"maintenance"});
  story.members[1]->state.round = 8;
  story.connect(*story.members[1]);
  CHECK(story.members[1]->wanted.phase == desired_phase::fence);
  story.stop_all();
  CHECK(story.view().phase == run_phase::closed);
}

// In a round that is only prepared nobody has a place, and no worker was started.
TEST_CASE("a running instance that comes while the first round here is prepared is kept") {
  orphans_story story(2, nodes_of(2, 2));
  story.now = run_story::origin + 12s;
  fake_node& first = story.joined("x", story.settings);
  fake_node& second = story.joined("y", story.settings);
  REQUIRE(story.view().phase == run_phase::preparing);
  fake_node& leader = first.wanted.phase == desired_phase::prepare ? first : second;
  story.connect(*story.members[0]);
  CHECK(story.members[0]->desired_count == 0);
  CHECK(story.view().phase == run_phase::gathering);
  CHECK(leader.wanted.phase == desired_phase::wait);
  SECTION("when all of it are here") {
    story.connect(*story.members[1]);
    CHECK(story.view().instance == 42);
    CHECK(story.view().phase == run_phase::running);
    CHECK(story.members[1]->wanted.phase == desired_phase::run);
  }
  SECTION("and the prepared one begins anew when it is gone, and its workers must be, too") {
    story.disconnect(*story.members[0]);
    story.pass(590s);
    CHECK(leader.wanted.phase == desired_phase::wait);
    story.pass(30s);
    CHECK(story.view().phase == run_phase::preparing);
    CHECK(story.view().instance != 42);
    story.start_round();
    CHECK(story.view().phase == run_phase::running);
  }
}
