// What a peer that lies, or is broken, can do while it has a place in the round: nothing to others.
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

TEST_CASE("a member that comes back with another instance, and then with none, is not forgotten") {
  run_story story;
  fake_node& liar = story.joined("liar", nodes_of(1, 1));
  story.start_round();
  story.disconnect(liar);
  liar.state.instance = 0x3039;
  story.connect(liar);
  CHECK(liar.wanted.phase == desired_phase::fence);
  fake_node& other = story.joined("other", nodes_of(1, 1));
  const std::uint64_t seq = liar.state.seq;
  liar.state = {};
  liar.state.seq = seq;
  story.say(liar);  // there is room for one, and it has a place
  CHECK(liar.refusal.empty());
  // It ends when the liar goes, and the other one is next.
  story.goodbye(liar);
  story.pass(30s);
  CHECK(other.refusal.empty());
  CHECK(story.view().member_count >= 1);
}

TEST_CASE("a leader that says it is of a closed instance, and goes, gives way to older workers") {
  run_story story;
  fake_node& first = story.joined("first", nodes_of(1, 1));
  story.start_round();
  const instance_id closed = first.wanted.instance;
  story.say(first, member_phase::succeeded);
  REQUIRE(first.wanted.phase == desired_phase::close);
  story.goodbye(first);
  fake_node& leader = story.joined("leader", nodes_of(1, 1));
  REQUIRE(leader.wanted.phase == desired_phase::prepare);
  story.disconnect(leader);
  leader.state.instance = closed;
  story.connect(leader);
  story.disconnect(leader);
  fake_node& older = story.node("older", nodes_of(1, 1));
  older.state.instance = 0x77;
  older.state.round = 5;
  older.state.phase = member_phase::running;
  older.state.assignment = assignment{0, 1, 0, 2, "10.0.0.1", 4000, 4000, "older", {}};
  story.connect(older);
  CHECK(older.refusal.empty());
  CHECK(story.view().instance == 0x77);
}
