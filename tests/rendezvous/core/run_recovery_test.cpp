#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

core::run_options restarted() {
  core::run_options options;
  options.recovery_until = run_story::origin + 10s;
  return options;
}

// Nodes as they were in round 7 of instance 42 when their daemon died.
struct orphans_story : run_story {
  explicit orphans_story(std::uint32_t count, run_settings with = nodes_of(1, 4))
      : run_story(restarted()), settings(with) {
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      fake_node& who = node("n" + std::to_string(slot), settings);
      assignment place;
      place.slot = slot;
      place.group_world_size = count;
      place.rank_first = 2 * slot;
      place.world_size = 2 * count;
      place.master_address = "10.0.0.1";
      place.master_port = place.tether_port = 4000;
      place.leader_node = "n0";
      who.state.instance = 42;
      who.state.round = 7;
      who.state.desired_seq = 30 + slot;
      who.state.phase = member_phase::running;
      who.state.place = place;
      who.state.restarts_used = 2;
      members.push_back(&who);
    }
  }
  run_settings settings;
  std::vector<fake_node*> members;
};

}  // namespace

TEST_CASE("a restarted daemon keeps a round when all its members say that they run it") {
  orphans_story story(3);
  story.connect(*story.members[2]);
  story.connect(*story.members[0]);
  CHECK(story.members[0]->desired_count == 0);
  CHECK(story.members[0]->answered == story.members[0]->state.seq);
  story.connect(*story.members[1]);
  CHECK(story.view().phase == run_phase::running);
  CHECK(story.view().instance == 42);
  CHECK(story.view().round == 7);
  CHECK(story.view().restarts_used == 2);
  for (const fake_node* const who : story.members) {
    CHECK(who->wanted.phase == desired_phase::run);
    CHECK(who->wanted.place == who->state.place);
    CHECK(who->wanted.seq > who->state.desired_seq);
  }
  story.pass(60s);
  CHECK(story.view().phase == run_phase::running);
  SECTION("and it goes on as any other") {
    story.fail(*story.members[1], 1);
    story.stop_all();
    CHECK(story.view().round == 8);
    CHECK(story.view().restarts_used == 3);
  }
  SECTION("also to its success") {
    for (fake_node* const who : story.members)
      story.say(*who, member_phase::succeeded);
    CHECK(story.members[0]->wanted.phase == desired_phase::close);
  }
}

TEST_CASE("no round starts before the recovery window has passed") {
  run_story story(restarted());
  fake_node& newcomer = story.joined("a", nodes_of(1, 1));
  CHECK(newcomer.wanted.phase == desired_phase::wait);
  story.pass(9900ms);
  CHECK(newcomer.wanted.phase == desired_phase::wait);
  CHECK(story.why().find("the daemon has just started") == 0);
  story.pass(100ms);
  CHECK(newcomer.wanted.phase == desired_phase::prepare);
}

TEST_CASE("an incomplete round is ended free of charge, and the missing are fenced") {
  orphans_story story(3);
  story.connect(*story.members[0]);
  story.connect(*story.members[1]);
  fake_node& newcomer = story.joined("new", story.settings);
  story.pass(10s);
  CHECK(story.members[0]->wanted.phase == desired_phase::stop);
  CHECK(story.members[0]->wanted.text ==
        "the rendezvous daemon was restarted and 1 of 3 nodes of round 7 have not come back");
  CHECK(newcomer.wanted.phase == desired_phase::wait);
  story.stop_all();
  story.pass(8400ms);
  CHECK(story.view().round == 7);
  story.pass(100ms);
  CHECK(story.view().round == 9);
  CHECK(story.view().restarts_used == 2);
  story.start_round();
  CHECK(story.members[0]->wanted.place->slot == 0);
  CHECK(newcomer.wanted.place->slot == 2);
  story.connect(*story.members[2]);
  CHECK(story.members[2]->wanted.phase == desired_phase::fence);
}

TEST_CASE("where the leader is missing, two isolation limits pass") {
  orphans_story story(3);
  story.connect(*story.members[2]);
  story.connect(*story.members[1]);
  story.pass(10s);
  story.stop_all();
  story.pass(16550ms);
  CHECK(story.view().round == 7);
  story.pass(100ms);
  CHECK(story.view().round == 9);
}

TEST_CASE("a member that comes back while the found round is stopped is told to stop") {
  orphans_story story(3);
  story.connect(*story.members[0]);
  story.connect(*story.members[1]);
  story.pass(10s);
  story.stop_all();
  story.members[2]->state.desired_seq = 900;
  story.connect(*story.members[2]);
  CHECK(story.members[2]->wanted.phase == desired_phase::stop);
  CHECK(story.members[2]->wanted.seq > 900);
  story.pass(30s);
  CHECK(story.view().round == 7);
  story.stop_all();
  story.beat_all();
  CHECK(story.view().round == 9);
}

TEST_CASE("a daemon that died while a leader prepared does not believe that it prepared alone") {
  orphans_story story(2);
  fake_node& leader = *story.members[0];
  leader.state.phase = member_phase::preparing;
  leader.state.place.reset();
  story.connect(leader);
  story.pass(10s);
  CHECK(leader.wanted.phase == desired_phase::stop);
  story.stop_all();
  story.pass(5s);
  CHECK(story.view().round == 7);
  story.pass(5s);
  CHECK(story.view().round == 9);
}

TEST_CASE("claims of two instances: the larger wins, the others are fenced") {
  orphans_story story(3);
  story.members[0]->state.instance = 41;
  story.connect(*story.members[0]);
  story.connect(*story.members[1]);
  story.connect(*story.members[2]);
  story.pass(10s);
  CHECK(story.view().instance == 42);
  CHECK(story.members[0]->wanted.phase == desired_phase::fence);
  CHECK(story.members[1]->wanted.phase == desired_phase::stop);
}

TEST_CASE("agents of an instance that waited only go on gathering") {
  run_story story(restarted());
  fake_node& waiting = story.node("a", nodes_of(2, 2));
  waiting.state.instance = 42;
  story.connect(waiting);
  story.pass(10s);
  CHECK(story.view().instance == 42);
  CHECK(story.view().phase == run_phase::gathering);
  fake_node& other = story.joined("b", nodes_of(2, 2));
  CHECK(waiting.wanted.phase == desired_phase::prepare);
  CHECK(other.wanted.instance == 42);
  // The earlier daemon may have chosen round 1 unseen: no number is used twice.
  CHECK(story.view().round == 2);
}

TEST_CASE("without a window the first agent of an instance brings it back") {
  orphans_story story(2);
  story.now = run_story::origin + 20s;
  story.connect(*story.members[1]);
  CHECK(story.view().instance == 42);
  CHECK(story.members[1]->wanted.phase == desired_phase::stop);
  story.connect(*story.members[0]);
  story.stop_all();
  story.beat_all();
  CHECK(story.view().round == 9);
}

TEST_CASE("only waiting nodes come back: the round that they were told of may still live") {
  run_story story(restarted());
  fake_node& waiting = story.node("a", nodes_of(1, 2));
  waiting.state.instance = 42;
  waiting.state.round_told = 7;
  story.connect(waiting);
  story.pass(10s);
  CHECK(story.view().instance == 42);
  CHECK(story.view().phase == run_phase::stopping);
  for (int beat = 0; beat < 12; ++beat) {
    story.pass(50s);
    story.beat_all();
  }
  CHECK(story.view().round == 9);
  CHECK(waiting.wanted.phase == desired_phase::prepare);
}
