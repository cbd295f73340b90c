// Rule 1: which nodes are here for the next round, and when it is chosen.
#include "rendezvous/core/run/gather.hpp"

#include "rendezvous/core/run/nodes.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"
#include "tests/support/time_origin.hpp"

#include <algorithm>

using ddprun::tests::machine_origin;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a round starts when max nodes are here: prepare to the leader alone, then run to all") {
  run_story story;
  fake_node& second = story.joined("node-b", nodes_of(2, 2), 3);
  CHECK(second.wanted.phase == desired_phase::wait);
  CHECK(second.wanted.text == "waiting for 1 of 2 nodes; here: node-b (3 workers)");
  CHECK(second.answered == second.state.seq);
  story.now += 12s;
  CHECK(story.why() == "waiting for 1 of 2 nodes; here: node-b (3 workers); for 12 s");

  fake_node& first = story.joined("node-a", nodes_of(2, 2), 2);
  CHECK(first.wanted.phase == desired_phase::prepare);
  CHECK(first.wanted.round == 1);
  CHECK(first.wanted.world_size == 5);
  CHECK(first.wanted.group_world_size == 2);
  CHECK(first.wanted.master_address == first.peer_address);
  CHECK(second.wanted.phase == desired_phase::wait);

  story.start_round();
  REQUIRE(first.wanted.assignment);
  REQUIRE(second.wanted.assignment);
  CHECK(first.wanted.assignment->group_rank == 0);
  CHECK(first.wanted.assignment->rank_first == 0);
  CHECK(second.wanted.assignment->group_rank == 1);
  CHECK(second.wanted.assignment->rank_first == 2);
  CHECK(second.wanted.assignment->world_size == 5);
  CHECK(second.wanted.assignment->master_address == first.peer_address);
  CHECK(second.wanted.assignment->master_port == 29501);
  CHECK(second.wanted.assignment->leader_node == "node-a");
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("nodes of different roles are told their ranks within them") {
  run_story story;
  fake_node& reader = story.node("node-b", nodes_of(2, 2), 3);
  reader.greeting.role = "reader";
  story.connect(reader);
  const fake_node& trainer = story.joined("node-a", nodes_of(2, 2), 2);
  story.start_round();
  REQUIRE(trainer.wanted.assignment);
  REQUIRE(reader.wanted.assignment);
  CHECK(trainer.wanted.assignment->in_role == role_ranks{0, 2});
  CHECK(reader.wanted.assignment->in_role == role_ranks{0, 3});
  CHECK(reader.wanted.assignment->rank_first == 2);
}

TEST_CASE("last call ends at join_timeout, however many still come") {
  run_story story;
  run_settings settings = nodes_of(1, 100);
  settings.timing.join_timeout = 60s;
  for (int index = 0; index < 3; ++index) {
    story.joined("n" + std::to_string(index), settings);
    story.pass(19s);
  }
  story.joined("late", settings);
  CHECK(story.view().phase == run_phase::gathering);
  story.pass(3s);
  CHECK(story.view().phase == run_phase::preparing);
}

TEST_CASE("too few nodes within join_timeout end the run, and the missing ones are named") {
  run_story story;
  fake_node& alone = story.joined("a", nodes_of(2, 2));
  story.pass(601s);
  CHECK(alone.wanted.phase == desired_phase::close);
  CHECK(alone.wanted.exit_code == unmet_exit_code);
  CHECK(alone.wanted.text ==
        "gave up after 10 min (join_timeout): waiting for 1 of 2 nodes; here: a (2 workers)");
}

TEST_CASE("of two groups that disagree the larger is chosen, of equal ones the first") {
  run_story story(restarted());
  fake_node& one = story.joined("a", nodes_of(1, 4));
  fake_node& two = story.joined("b", nodes_of(1, 5));
  SECTION("equal") {
    story.pass(41s);
    CHECK(one.refusal.empty());
    CHECK_FALSE(two.refusal.empty());
  }
  SECTION("larger") {
    story.joined("c", nodes_of(1, 5));
    story.pass(41s);
    CHECK_FALSE(one.refusal.empty());
    CHECK(two.refusal.empty());
  }
}

TEST_CASE("after a fall back to gathering the last call is a new one") {
  run_settings settings = nodes_of(2, 3);
  settings.timing.last_call_timeout = 20s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  story.pass(20s);
  story.start_round();
  REQUIRE(story.view().phase == run_phase::running);
  story.guardian(b);
  story.stop_all();
  story.pass(1s);
  REQUIRE(story.view().phase == run_phase::gathering);
  CHECK(a.wanted.phase == desired_phase::wait);
  story.joined("c", settings);
  const time_point called = story.now;
  story.pass(19s);
  CHECK(story.view().phase == run_phase::gathering);
  story.pass(1s);
  CHECK(story.view().phase == run_phase::preparing);
  CHECK(story.now >= called + 20s);
}

TEST_CASE("a run that gathers again gives up join_timeout after it fell back to that") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  story.pass(700s);
  story.guardian(b);
  story.stop_all();
  story.pass(1s);
  REQUIRE(story.view().phase == run_phase::gathering);
  story.pass(598s);
  CHECK(story.view().phase == run_phase::gathering);
  story.pass(2s);
  CHECK(a.wanted.phase == desired_phase::close);
  CHECK(a.wanted.exit_code == unmet_exit_code);
  // The loss is why no node came.
  REQUIRE(a.wanted.root_cause);
  CHECK(a.wanted.root_cause->kind == cause_class::node_lost);
}

TEST_CASE("nodes with other times for a signal's end are of one run, with the time of the first") {
  run_story story;
  run_settings other = nodes_of(2, 2);
  other.timing.drain_grace = 5s;
  const fake_node& first = story.joined("a", nodes_of(2, 2));
  fake_node& second = story.joined("b", other);
  CHECK(first.wanted.phase == desired_phase::prepare);
  SECTION("also when one comes again") {
    story.disconnect(second);
    story.connect(second);
    CHECK(second.wanted.phase != desired_phase::close);
    CHECK(second.connection != 0);
  }
}

TEST_CASE("the same holds if the agent for which the daemon was opened is not here") {
  core::run_options options;
  options.opened_by = started_job{};
  run_story story(options);
  run_settings other = nodes_of(2, 2);
  other.timing.drain_grace = 5s;
  const fake_node& first = story.joined("a", nodes_of(2, 2));
  const fake_node& second = story.joined("b", other);
  CHECK(story.view().phase == run_phase::preparing);
  CHECK(first.wanted.phase == desired_phase::prepare);
  CHECK(second.connection != 0);
}

TEST_CASE("only a connected session counts") {
  run_story story;
  fake_node& first = story.joined("a", nodes_of(2, 2));
  story.disconnect(first);
  fake_node& second = story.joined("b", nodes_of(2, 2));
  CHECK(story.view().phase == run_phase::gathering);
  story.connect(first);
  CHECK(story.view().phase == run_phase::preparing);
  CHECK(second.wanted.phase == desired_phase::wait);
}

TEST_CASE(
    "before the first round, too, a newcomer that differs is refused, the first ones wait on") {
  run_story story;
  fake_node& first = story.joined("a", nodes_of(2, 2));
  const fake_node& odd = story.joined("odd", nodes_of(3, 3));
  CHECK(odd.refusal ==
        "odd has nnodes 3:3, the run 2:2: start all nodes of run story with the same options; "
        "if this is another job, give it its own --rdzv-id");
  CHECK(odd.connection == 0);
  CHECK(first.refusal.empty());
  story.say(first);
  CHECK(first.wanted.text ==
        "waiting for 1 of 2 nodes; here: a (2 workers); odd was refused: it has nnodes 3:3, the "
        "run 2:2");
  fake_node& second = story.joined("b", nodes_of(2, 2));
  story.start_round();
  CHECK(first.state.phase == member_phase::running);
  CHECK(second.state.phase == member_phase::running);
  const fake_node& late = story.joined("c", nodes_of(4, 4));
  CHECK(late.refusal.find("c has nnodes 4:4, the run 2:2: start all nodes") == 0);
}

TEST_CASE("the settings of a first node that has left, or fallen silent, no longer count") {
  run_story story;
  fake_node& first = story.joined("a", nodes_of(2, 2));
  SECTION("left") {
    story.goodbye(first);
  }
  SECTION("lost its connection") {
    story.disconnect(first);
  }
  SECTION("silent for three heartbeats") {
    story.now += 3s;
  }
  const fake_node& other = story.joined("b", nodes_of(3, 3));
  CHECK(other.refusal.empty());
  CHECK(other.wanted.phase == desired_phase::wait);
}

TEST_CASE("a first node that comes back to others waits with them, as none is known to be right") {
  run_story story;
  fake_node& first = story.joined("a", nodes_of(2, 2));
  story.disconnect(first);
  fake_node& other = story.joined("b", nodes_of(3, 3));
  first.state.instance = first.wanted.instance;
  story.connect(first);
  CHECK(first.refusal.empty());
  CHECK(other.refusal.empty());
  CHECK(story.why() ==
        "waiting for 1 of 2 nodes; here: a (2 workers), b (2 workers); they disagree: a has nnodes "
        "2:2, b 3:3: start all nodes of run story with the same options; for 0 ms");
}

TEST_CASE("the settings of the agent that hosts the daemon count, though another node came first") {
  run_story story;
  const fake_node& quick = story.joined("b", nodes_of(3, 3));
  fake_node& host = story.node("a", nodes_of(2, 2));
  host.greeting.hosts_daemon = true;
  host.local_address = host.peer_address;
  story.connect(host);
  CHECK(host.refusal.empty());
  CHECK(quick.refusal.find("b has nnodes 3:3, the run 2:2: start all nodes") == 0);
  CHECK(story.joined("c", nodes_of(3, 3)).refusal.find("c has nnodes 3:3, the run 2:2") == 0);
  CHECK(story.joined("d", nodes_of(2, 2)).refusal.empty());
}

TEST_CASE("hosts of one name are different nodes") {
  run_story story;
  story.joined("twin", nodes_of(2, 2));
  story.joined("twin", nodes_of(2, 2));
  CHECK(story.view().phase == run_phase::preparing);
}

TEST_CASE("the reason to wait is refreshed at a node's own heartbeat") {
  run_story story;
  fake_node& first = story.joined("a", nodes_of(3, 3));
  story.joined("b", nodes_of(3, 3));
  const std::size_t before = first.desired_count;
  story.say(first);
  CHECK(first.wanted.text == "waiting for 1 of 3 nodes; here: a (2 workers), b (2 workers)");
  CHECK(first.desired_count == before + 1);
  story.say(first);
  CHECK(first.desired_count == before + 1);
}

TEST_CASE("a run without a node is forgettable, one with a node is not") {
  run_story story;
  CHECK(story.machine().forgettable(story.now));
  fake_node& first = story.joined("a", nodes_of(2, 2));
  CHECK_FALSE(story.machine().forgettable(story.now));
  story.goodbye(first);
  CHECK(story.machine().forgettable(story.now));
}

TEST_CASE("a node without a connection is neither counted nor named, even if it may come back") {
  run_story story;
  fake_node& first = story.joined("a", nodes_of(2, 2));
  story.disconnect(first);
  CHECK(story.why() == "waiting for 2 of 2 nodes; for 0 ms");
  story.connect(first);
  CHECK(story.why() == "waiting for 1 of 2 nodes; here: a (2 workers); for 0 ms");
}

TEST_CASE("a spare that connects again is told what it has not been told yet: by a later number") {
  run_settings settings = nodes_of(1, 1);
  settings.spares_max = 1;
  run_story story;
  story.joined("a", settings);
  story.start_round();
  fake_node& spare = story.joined("b", settings);
  const desired before = spare.wanted;
  story.disconnect(spare);
  story.connect(spare);
  CHECK(spare.wanted.text == before.text);
  CHECK(spare.wanted.seq > before.seq);
}

TEST_CASE("a node that is not a candidate is not told to wait until it is one") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2));
  fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  story.fail(a, 1);
  b.state.unkillable = 1;
  story.stop_all();
  REQUIRE(story.view().phase == run_phase::gathering);
  const std::size_t told = b.desired_count;
  story.say(b);
  CHECK(b.desired_count == told);
  b.state.unkillable = 0;
  story.say(b);
  CHECK(story.view().phase == run_phase::preparing);
}

TEST_CASE("a node that waits and is lost is noted; one that leaves, or is fenced, is not") {
  run_story story;
  story.joined("stays", nodes_of(9, 9));
  fake_node& a = story.joined("a", nodes_of(9, 9));
  const auto is_noted = [&story] {
    return std::any_of(story.notes.begin(), story.notes.end(), [](const std::string& text) {
      return text.find("a is gone: ") != std::string::npos;
    });
  };
  SECTION("lost") {
    story.disconnect(a);
    story.pass(3s);
    CHECK(is_noted());
  }
  SECTION("leaves") {
    story.goodbye(a);
    CHECK_FALSE(is_noted());
  }
  SECTION("fenced") {
    a.state.instance = story.view().instance;
    a.state.round = 9;
    a.state.phase = member_phase::running;
    story.disconnect(a);
    story.connect(a);
    REQUIRE(a.wanted.phase == desired_phase::fence);
    story.disconnect(a);
    story.pass(3s);
    CHECK_FALSE(is_noted());
  }
}

TEST_CASE("a node in no instance waits, whatever round it names") {
  const run_settings settings = nodes_of(1, 2);
  run_story story;
  story.joined("a", settings);
  story.pass(settings.timing.last_call_timeout);
  story.start_round();
  fake_node& b = story.node("b", settings);
  b.state.round = b.state.round_told = 9;
  story.connect(b);
  CHECK(b.wanted.phase == desired_phase::wait);
}

// `gathering` without a run: groups of settings and their last calls.
namespace {

struct fake_group {
  run_settings settings;
  std::list<node> nodes;

  fake_group(std::uint32_t least, std::uint32_t most) {
    settings.nodes_min = least;
    settings.nodes_max = most;
    settings.timing.last_call_timeout = 30s;
    settings.timing.join_timeout = 600s;
  }

  node& come(gathering& to) {
    node& who = nodes.emplace_back();
    who.greeting.settings = settings;
    to.join(who);
    to.count(who, true);
    return who;
  }
};

void go(gathering& from, node& who) {
  from.count(who, false);
  from.leave(who);
}

}  // namespace

TEST_CASE("a group with the most nodes is ready at once") {
  gathering groups;
  fake_group pair(1, 2);
  pair.come(groups);
  CHECK(groups.ready(machine_origin, machine_origin) == nullptr);
  pair.come(groups);
  REQUIRE(groups.ready(machine_origin, machine_origin) != nullptr);
  CHECK(groups.ready(machine_origin, machine_origin)->here() == 2);
  CHECK(groups.here() == 2);
}

TEST_CASE("the last call begins at the minimum of nodes, and again only at a new highest number") {
  gathering groups;
  fake_group trio(2, 4);
  trio.come(groups);
  CHECK(groups.ready(machine_origin, machine_origin) == nullptr);
  CHECK_FALSE(groups.deadline(machine_origin));
  node& second = trio.come(groups);
  CHECK(groups.ready(machine_origin, machine_origin) == nullptr);
  CHECK(groups.deadline(machine_origin) == machine_origin + 30s);

  go(groups, second);
  CHECK(groups.ready(machine_origin + 10s, machine_origin) == nullptr);
  CHECK_FALSE(groups.deadline(machine_origin + 10s));
  trio.come(groups);
  CHECK(groups.ready(machine_origin + 10s, machine_origin) == nullptr);
  CHECK(groups.deadline(machine_origin + 10s) == machine_origin + 30s);
  trio.come(groups);
  CHECK(groups.ready(machine_origin + 20s, machine_origin) == nullptr);
  CHECK(groups.deadline(machine_origin + 20s) == machine_origin + 50s);
  CHECK(groups.ready(machine_origin + 50s, machine_origin) != nullptr);
  CHECK_FALSE(groups.deadline(machine_origin + 50s));

  groups.begin_anew();
  CHECK(groups.ready(machine_origin + 50s, machine_origin + 50s) == nullptr);
  CHECK(groups.deadline(machine_origin + 50s) == machine_origin + 80s);
}

TEST_CASE("of the groups that are ready the largest is taken; one without nodes is forgotten") {
  gathering groups;
  fake_group alone(1, 1);
  fake_group pair(2, 2);
  node& one = alone.come(groups);
  pair.come(groups);
  pair.come(groups);
  CHECK(groups.size() == 2);
  REQUIRE(groups.ready(machine_origin, machine_origin) != nullptr);
  CHECK(groups.ready(machine_origin, machine_origin)->settings() == pair.settings);
  go(groups, one);
  CHECK(groups.size() == 1);
  CHECK(one.group == nullptr);
}

TEST_CASE("a node that is here but not a candidate is in its group, and not counted") {
  gathering groups;
  fake_group pair(1, 2);
  node& one = pair.come(groups);
  CHECK_FALSE(groups.count(one, true));
  CHECK(groups.count(one, false));
  CHECK(groups.here() == 0);
  CHECK(groups.size() == 1);
  node stranger;
  CHECK_FALSE(groups.count(stranger, true));
  CHECK_FALSE(stranger.counted);
}

TEST_CASE("a group that was fixed stays, alone, until it is not fixed any longer") {
  gathering groups;
  fake_group pair(1, 2);
  fake_group other(1, 1);
  node& one = pair.come(groups);
  node& differs = other.come(groups);
  groups.fix(*one.group);
  go(groups, differs);
  groups.forget_others();
  CHECK(groups.size() == 1);
  go(groups, one);
  CHECK(groups.size() == 1);
  groups.unfix();
  CHECK(groups.empty());
}
