// Messages that no honest node sends.
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"
#include "tests/support/run_story.hpp"

#include <limits>

using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

// A peer that lies, or is broken, can do nothing to a run: it is refused.
namespace {

// Makes the node claim that it runs in round 7 of instance 42 of an earlier daemon.
fake_node& orphan(run_story& story, const run_settings& settings, std::uint32_t group_rank,
                  std::uint32_t count) {
  fake_node& who = story.node("n" + std::to_string(group_rank), settings);
  assignment assigned;
  assigned.group_rank = group_rank;
  assigned.group_world_size = count;
  assigned.rank_first = 2 * group_rank;
  assigned.world_size = 2 * count;
  assigned.master_address = "10.0.0.1";
  assigned.master_port = assigned.tether_port = 4000;
  who.state.instance = 42;
  who.state.round = 7;
  who.state.desired_seq = 30;
  who.state.phase = member_phase::running;
  who.state.assignment = assigned;
  return who;
}

constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();

}  // namespace

TEST_CASE("a session that says hello again is the same node: another label is refused") {
  run_story story;
  fake_node& first = story.node("a", nodes_of(2, 3));
  first.greeting.node_is_explicit = true;
  story.connect(first);
  fake_node& again = story.node("b", nodes_of(2, 3));
  again.greeting.session = first.greeting.session;
  SECTION("another label") {
    again.greeting.node_is_explicit = true;
    story.connect(again);
    CHECK(again.refusal == "the session of node a is here already, with another node id");
  }
  SECTION("other settings") {
    again.greeting = first.greeting;
    again.greeting.settings.restarts_max = 9;
    story.connect(again);
    CHECK(again.refusal.ends_with("with another settings"));
  }
  SECTION("another number of workers") {
    again.greeting = first.greeting;
    again.greeting.worker_count = 3;
    story.connect(again);
    CHECK(again.refusal.ends_with("with another number of workers"));
  }
  SECTION("another role") {
    again.greeting = first.greeting;
    again.greeting.role = "reader";
    story.connect(again);
    CHECK(again.refusal.ends_with("with another role"));
  }
  CHECK(first.connection != 0);
  // Both are gone, and their names with them, so no node is taken for one of them.
  story.goodbye(first);
  for (const std::string name : {"a", "b"}) {
    fake_node& next = story.node(name, nodes_of(3, 3));
    next.greeting.node_is_explicit = true;
    story.connect(next);
    CHECK(next.refusal.empty());
  }
}

TEST_CASE("a session that comes from another address is the same node") {
  run_story story;
  fake_node& first = story.joined("a", nodes_of(2, 2));
  first.peer_address = first.greeting.own_address = "10.9.9.9";
  story.connect(first);
  CHECK(first.refusal.empty());
  CHECK(story.sizes().nodes == 1);
}

TEST_CASE("claimants of one round with different settings: most of them know, the others go") {
  run_story story(restarted());
  fake_node& odd = orphan(story, nodes_of(1, 4), 0, 3);
  fake_node& b = orphan(story, nodes_of(1, 3), 1, 3);
  fake_node& c = orphan(story, nodes_of(1, 3), 2, 3);
  story.connect(odd);
  story.connect(b);
  story.connect(c);
  CHECK(odd.refusal.find(" has nnodes 1:4, the run 1:3: ") != std::string::npos);
  CHECK(b.refusal.empty());
  story.pass(10s);
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(b.wanted.phase == desired_phase::stop);
  CHECK(c.wanted.phase == desired_phase::stop);
  CHECK(story.sizes().settings_groups == 1);
}

TEST_CASE("a member of a found round with other settings never makes up the number of a round") {
  run_story story(restarted());
  fake_node& a = orphan(story, nodes_of(2, 3), 0, 2);
  fake_node& odd = orphan(story, nodes_of(2, 4), 1, 2);
  story.connect(odd);
  story.pass(9s);
  // It is away when the round is found, so it is not compared with the others.
  story.disconnect(odd);
  story.connect(a);
  story.pass(1s);
  REQUIRE(story.view().phase == run_phase::stopping);
  story.connect(odd);
  CHECK(odd.wanted.phase == desired_phase::fence);
  story.stop_all();
  story.pass(20s);
  story.rejoin(odd);
  CHECK(odd.refusal.find(" has nnodes 2:4, the run 2:3: ") != std::string::npos);
  CHECK(a.wanted.phase == desired_phase::wait);
  CHECK(story.view().phase == run_phase::gathering);
  CHECK(story.sizes().settings_groups == 1);
}

TEST_CASE("a claimant that says it is of another instance than it came with is cut off") {
  run_story story(restarted());
  fake_node& liar = orphan(story, nodes_of(1, 4), 0, 3);
  fake_node& other = orphan(story, nodes_of(1, 4), 1, 3);
  story.connect(liar);
  story.connect(other);
  liar.state.instance = 0;
  story.say(liar, member_phase::running);
  CHECK(liar.refusal == "status.instance: is not the one that it came with");
  CHECK(liar.connection == 0);
  story.pass(11s);
  CHECK(story.view().instance == other.state.instance);
}

TEST_CASE("numbers that no daemon reaches are refused, and raise nothing") {
  const std::uint64_t lie = GENERATE(count_said_max + 1, count_max, huge);
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 3));
  fake_node& liar = story.node("liar", nodes_of(1, 3));
  liar.state.instance = story.view().instance;
  SECTION("desired_seq") {
    liar.state.desired_seq = lie;
    story.connect(liar);
    CHECK(liar.refusal.ends_with("was never said"));
  }
  SECTION("round") {
    liar.state.round = lie;
    liar.state.phase = member_phase::running;
    story.connect(liar);
    CHECK(liar.refusal.ends_with("was never begun"));
  }
  SECTION("round_told") {
    liar.state.round_told = lie;
    story.connect(liar);
    CHECK(liar.refusal.ends_with("was never begun"));
  }
  SECTION("in a status") {
    story.connect(liar);
    liar.state.round = lie;
    story.say(liar);
    CHECK(liar.refusal.ends_with("was never begun"));
    CHECK(liar.connection == 0);
  }
  story.pass(31s);
  story.start_round();
  CHECK(a.wanted.phase == desired_phase::run);
  CHECK(a.wanted.round == 1);
  CHECK(a.wanted.seq < 1000);
}

TEST_CASE("what a peer may raise leaves room to count on") {
  run_story story(restarted());
  fake_node& a = orphan(story, nodes_of(1, 1), 0, 1);
  a.state.desired_seq = count_said_max;
  a.state.round = count_said_max;
  a.state.restarts_used = 4'000'000'000;
  story.connect(a);
  REQUIRE(a.refusal.empty());
  CHECK(story.view().phase == run_phase::running);
  CHECK(a.wanted.seq == count_said_max + 1);
  CHECK(story.view().restarts_used == 3);
  // It has been given a number that no other agent may claim, and may name that number itself.
  run_story::obey(a);
  story.say(a);
  story.connect(a);
  CHECK(a.refusal.empty());
  CHECK(a.wanted.seq <= count_max);
}

TEST_CASE("settings that no machine can work with are refused in one line that names them") {
  run_settings settings = nodes_of(1, 2);
  std::string expected;
  SECTION("too long") {
    settings.timing.reconnect_grace = 24h * 365;
    expected = "reconnect_grace is 31536000 s, and may be 0.001 to 2592000 s";
  }
  SECTION("too short") {
    settings.timing.heartbeat_interval = 1us;
    expected = "heartbeat_interval is 0.000001 s, and may be 0.0001 to 2592000 s";
  }
  SECTION("negative") {
    settings.timing.settle = -1500ms;
    expected = "settle is -1.5 s, and may be 0 to 2592000 s";
  }
  SECTION("without bound") {
    settings.timing.join_timeout = duration::max();
    expected = "join_timeout is 9223372036.854775 s, and may be 0 to 2592000 s";
  }
  SECTION("no nodes") {
    settings.nodes_min = 0;
    expected = "nnodes is 0:2, and may be MIN:MAX with 1 to MAX and 1 to 1000000";
  }
  SECTION("too many spares") {
    settings.spares_max = 4'000'000'000;
    expected = "spares is 4000000000, and may be 0 to 1000000";
  }
  run_story story;
  const fake_node& liar = story.joined("liar", settings);
  CHECK(liar.refusal == expected);
  CHECK(story.sizes().nodes == 0);
}

TEST_CASE("a place that cannot be is refused") {
  run_story story(restarted());
  fake_node& liar = orphan(story, nodes_of(1, 3), 1, 3);
  SECTION("not below the size of the group") {
    liar.state.assignment->group_rank = 3;
  }
  SECTION("more nodes than the run may have") {
    liar.state.assignment->group_world_size = 4;
  }
  SECTION("ranks beyond the world") {
    liar.state.assignment->rank_first = 5;
  }
  SECTION("ranks beyond those of the role") {
    liar.state.assignment->in_role = {4, 5};
  }
  SECTION("a role with more workers than the world") {
    liar.state.assignment->in_role = {0, 7};
  }
  story.connect(liar);
  CHECK(liar.refusal.ends_with("is invalid"));
}

TEST_CASE("settings groups go with their last node") {
  run_story story;
  fake_node& stays = story.joined("stays", nodes_of(2, 2));
  for (std::uint32_t index = 0; index < 50; ++index) {
    fake_node& odd = story.node("odd", nodes_of(3, 3 + index));
    odd.state.instance = stays.wanted.instance;  // not a newcomer, which would be refused
    story.connect(odd);
    CHECK(story.sizes().settings_groups == 2);
    if (index % 2 == 0) {
      story.goodbye(odd);
    } else {
      story.disconnect(odd);
      story.pass(3s);
    }
    CHECK(story.sizes().settings_groups == 1);
  }
  CHECK(stays.wanted.phase == desired_phase::wait);
  story.joined("b", nodes_of(2, 2));
  CHECK(story.view().phase == run_phase::preparing);
}

TEST_CASE("a node of a closed instance is in no settings group of the next one") {
  run_story story;
  fake_node& first = story.joined("first", nodes_of(2, 2));
  const instance_id closed = story.view().instance;
  story.step(core::operator_stop_requested{"next"});
  story.goodbye(first);
  story.joined("stays", nodes_of(2, 2));
  fake_node& odd = story.node("odd", nodes_of(3, 3));
  odd.state.instance = story.view().instance;
  story.connect(odd);
  CHECK(story.sizes().settings_groups == 2);
  odd.state.instance = closed;
  story.disconnect(odd);
  story.connect(odd);
  CHECK(odd.wanted.phase == desired_phase::close);
  CHECK(story.sizes().settings_groups == 1);
}

TEST_CASE("nodes that connect and go are remembered up to a number") {
  run_settings settings = nodes_of(2, 2);
  settings.timing.node_timeout = settings.timing.reconnect_grace = timer_max;
  core::run_options options;
  options.run_id = "lies";
  core::run run(options);
  time_point now = run_story::origin;
  const auto step = [&](const core::run_event& event) {
    core::run_effects effects;
    run.step(event, now, effects);
  };
  for (std::uint64_t number = 1; number <= 12'288; ++number) {
    now += 1ms;
    core::agent_joined joined;
    joined.connection = number;
    joined.hello.session = {1, number};
    joined.hello.settings = settings;
    joined.hello.settings.nodes_max = number % 2 == 0 ? 2 : 3;
    joined.fresh_instance = 5;
    step(joined);
    step(core::agent_disconnected{number});
    if (number == 8192) CHECK(run.sizes().absent == 8192);
    if (number == 8193) CHECK(run.sizes().absent == 4097);  // half of them were removed
    if (number % 1024 == 0) {
      CHECK(run.sizes().absent <= 8192);
      CHECK(run.sizes().settings_groups <= 2);
    }
  }
}

TEST_CASE("sessions that claim a closed instance are not remembered") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 1, 0));
  story.start_round();
  const instance_id closed = story.view().instance;
  story.fail(a, 3);
  story.stop_all();
  REQUIRE(story.view().phase == run_phase::closed);
  const std::size_t before = story.sizes().absent_at_close;
  for (int index = 0; index < 20; ++index) {
    fake_node& liar = story.node("liar", nodes_of(1, 1, 0));
    liar.state.instance = closed;
    story.connect(liar);
    CHECK(liar.wanted.phase == desired_phase::close);
    story.disconnect(liar);
  }
  CHECK(story.sizes().absent_at_close == before);
}

TEST_CASE("a round of as many nodes as a run may have is found as any other") {
  constexpr std::uint32_t most = nodes_per_run_max;
  run_story story(restarted());
  fake_node& first = orphan(story, nodes_of(1, most), 0, most);
  fake_node& late = orphan(story, nodes_of(1, most), most - 1, most);
  story.connect(first);
  story.now += 10s;
  story.say(first);
  story.step(core::time_passed{});
  CHECK(first.wanted.phase == desired_phase::stop);
  story.connect(late);
  CHECK(late.wanted.phase == desired_phase::stop);
}

// A peer that lies, or is broken, can do nothing to others while it has a membership in the round.
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
  story.say(liar);  // there is room for one, and it has a membership
  CHECK(liar.refusal.empty());
  // The round ends when the liar goes, and the other node is in the next one.
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
