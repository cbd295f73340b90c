// What a restarted daemon learns from its agents.
#include "rendezvous/core/run/recovery.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"
#include "tests/support/time_origin.hpp"

#include <algorithm>
#include <csignal>

using ddprun::tests::machine_origin;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

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
    CHECK(who->wanted.assignment == who->state.assignment);
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

// torchrun's variable may be set on one of the nodes only: each hello says what its agent was
// started with.
TEST_CASE("nodes with other times for a signal's end come back to a restarted daemon") {
  orphans_story story(3, nodes_of(3, 3));
  story.members[1]->greeting.settings.timing.drain_grace = 5s;
  story.members[2]->greeting.settings.timing.drain_grace = 7s;
  for (fake_node* const who : story.members)
    story.connect(*who);
  CHECK(story.view().phase == run_phase::running);
  for (const fake_node* const who : story.members) {
    CHECK(who->connection != 0);
    CHECK(who->wanted.phase == desired_phase::run);
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

// A node that waits in the accept queue counts, because time passes only when the queue is empty.
TEST_CASE("the end of the recovery window is judged when time passes, not at a message") {
  orphans_story story(3);
  story.connect(*story.members[0]);
  story.now += 11s;
  story.say(*story.members[0]);
  story.connect(*story.members[1]);
  story.connect(*story.members[2]);
  CHECK(story.view().phase == run_phase::running);
  CHECK(story.members[0]->wanted.phase == desired_phase::run);
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
  CHECK(story.members[0]->wanted.assignment->group_rank == 0);
  CHECK(newcomer.wanted.assignment->group_rank == 2);
  story.connect(*story.members[2]);
  CHECK(story.members[2]->wanted.phase == desired_phase::fence);
}

TEST_CASE("where only the leader is missing, one isolation limit passes, too") {
  orphans_story story(3);
  story.connect(*story.members[2]);
  story.connect(*story.members[1]);
  story.pass(10s);
  story.stop_all();
  story.pass(8400ms);
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
  leader.state.assignment.reset();
  story.connect(leader);
  story.pass(10s);
  CHECK(leader.wanted.phase == desired_phase::stop);
  story.stop_all();
  story.pass(5s);
  CHECK(story.view().round == 7);
  story.pass(5s);
  CHECK(story.view().round == 9);
}

// It stood still while the others went on; an ack would let its workers run on beside theirs.
TEST_CASE("a claimant of an older round than another one's gets no lease") {
  orphans_story story(3);
  fake_node& old = *story.members[2];
  old.state.round = 6;
  story.connect(old);
  CHECK(old.answered == old.state.seq);
  story.connect(*story.members[0]);
  const std::uint64_t answered = old.answered;
  story.say(old);
  CHECK(old.answered == answered);
  CHECK(story.members[0]->answered == story.members[0]->state.seq);
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
  // The earlier daemon may have chosen round 1 without any agent learning of it, and no number is
  // used twice.
  CHECK(story.view().round == 2);
}

TEST_CASE("members that come back after the window are waited for as within it") {
  orphans_story story(3);
  story.now = run_story::origin + 12s;
  const bool is_first = GENERATE(true, false);
  if (!is_first) {
    // It opens an instance, which waits for more nodes.
    fake_node& newcomer = story.joined("new", story.settings);
    CHECK(newcomer.wanted.phase == desired_phase::wait);
    CHECK(story.view().instance == newcomer.wanted.instance);
  }
  story.connect(*story.members[1]);
  CHECK(story.why().find(
            "nodes have come that are in a round of which this daemon has no record") == 0);
  CHECK(std::any_of(story.notes.begin(), story.notes.end(), [](const std::string& each) {
    return each.ends_with(", of which this daemon has no record: waiting for its other nodes");
  }));
  CHECK(story.members[1]->desired_count == 0);
  CHECK(story.members[1]->answered == story.members[1]->state.seq);
  SECTION("and the round is kept when all are here") {
    story.pass(3s);
    story.connect(*story.members[0]);
    story.connect(*story.members[2]);
    CHECK(story.view().instance == 42);
    CHECK(story.view().phase == run_phase::running);
    for (const fake_node* const who : story.members)
      CHECK(who->wanted.phase == desired_phase::run);
  }
  SECTION("and ended when some do not come") {
    story.pass(9900ms);
    CHECK(story.members[1]->desired_count == 0);
    story.pass(200ms);
    CHECK(story.view().instance == 42);
    CHECK(story.members[1]->wanted.phase == desired_phase::stop);
    story.connect(*story.members[0]);
    story.connect(*story.members[2]);
    story.stop_all();
    story.beat_all();
    story.pass(1s);
    CHECK(story.view().round == 9);
  }
}

TEST_CASE("a newcomer's instance that has not begun gives way: it becomes a spare, or is refused") {
  run_settings settings = nodes_of(2, 2);
  SECTION("a spare") {
    settings.spares_max = 1;
  }
  SECTION("refused") {}
  orphans_story story(2, settings);
  story.now = run_story::origin + 12s;
  fake_node& newcomer = story.joined("new", settings);
  story.connect(*story.members[0]);
  story.connect(*story.members[1]);
  CHECK(story.view().phase == run_phase::running);
  CHECK(story.view().instance == 42);
  if (settings.spares_max == 1) {
    CHECK(newcomer.wanted.phase == desired_phase::wait);
    CHECK(newcomer.wanted.instance == 42);
  } else {
    CHECK(newcomer.refusal.find("is full") != std::string::npos);
  }
}

// The daemon, for which the others have just waited, would end with it.
TEST_CASE("the node that hosts the daemon is not refused if there is no room") {
  orphans_story story(2, nodes_of(2, 2));
  story.now = run_story::origin + 12s;
  fake_node& newcomer = story.node("new", story.settings);
  newcomer.greeting.hosts_daemon = true;
  bool is_here = true;
  SECTION("which is here") {
    newcomer.peer_address = newcomer.local_address;
  }
  SECTION("one on another host cannot be it") {
    is_here = false;
  }
  const bool is_late = GENERATE(false, true);
  if (!is_late) story.connect(newcomer);
  story.connect(*story.members[0]);
  story.connect(*story.members[1]);
  if (is_late) story.connect(newcomer);
  CHECK(story.view().phase == run_phase::running);
  CHECK(newcomer.refusal.empty() == is_here);
  if (!is_here) return;
  CHECK(newcomer.wanted.phase == desired_phase::wait);
  story.fail(*story.members[0], 1);
  story.stop_all();
  story.start_round();
  CHECK(story.view().round == 8);
  CHECK(newcomer.wanted.phase == desired_phase::wait);
}

TEST_CASE("an instance that has placed a node does not give way") {
  run_settings settings = nodes_of(1, 2);
  settings.timing.last_call_timeout = 1s;
  orphans_story story(2, settings);
  story.now = run_story::origin + 12s;
  fake_node& newcomer = story.joined("new", settings);
  story.pass(2s);
  CHECK(newcomer.wanted.phase == desired_phase::prepare);
  story.start_round();
  story.connect(*story.members[0]);
  CHECK(story.members[0]->wanted.phase == desired_phase::fence);
  CHECK(newcomer.wanted.phase == desired_phase::run);
}

TEST_CASE("a node that comes and goes with the claim of a round holds up no other for ever") {
  orphans_story story(2);
  story.now = run_story::origin + 12s;
  fake_node& newcomer = story.joined("new", nodes_of(1, 2));
  fake_node& liar = *story.members[0];
  liar.state.phase = member_phase::joined;  // it has no workers to wait for
  liar.state.assignment.reset();
  liar.greeting.settings.timing.orphan_limit = 30s;
  for (int times = 0; times < 20; ++times) {
    liar.state.instance = 1000 + static_cast<instance_id>(times);
    story.connect(liar);
    story.disconnect(liar);
    // A window is opened again eight times.
    CHECK((liar.wanted.phase == desired_phase::fence) == (times >= 8));
    story.pass(11s, {&liar});
  }
  CHECK(story.view().instance == newcomer.wanted.instance);
  CHECK(story.view().round == 1);
}

TEST_CASE("a waiting node that leaves while claims are waited for ends nothing") {
  orphans_story story(2);
  story.now = run_story::origin + 12s;
  fake_node& newcomer = story.joined("new", story.settings);
  fake_node& other = story.joined("other", story.settings);
  story.connect(*story.members[0]);
  story.ask_to_leave(newcomer, SIGTERM);
  CHECK(newcomer.wanted.phase == desired_phase::close);
  CHECK(newcomer.wanted.exit_code == 0);
  story.ask_to_leave(other, SIGINT);
  CHECK(other.wanted.phase == desired_phase::wait);
  story.connect(*story.members[1]);
  CHECK(story.members[1]->wanted.phase != desired_phase::close);
}

TEST_CASE("a found round of which all returned members have succeeded ends the run well") {
  orphans_story story(3);
  for (fake_node* const who : story.members)
    who->state.phase = member_phase::succeeded;
  const bool was_stopped = GENERATE(false, true);
  if (was_stopped) {
    // Its workers had succeeded before the stop.
    story.members[1]->state.phase = member_phase::stopped;
    story.members[1]->state.succeeded = true;
  }
  story.connect(*story.members[0]);
  story.connect(*story.members[1]);
  CHECK(story.members[0]->desired_count == 0);
  story.pass(10s);
  CHECK(story.view().phase == run_phase::closed);
  CHECK(story.view().exit_code == 0);
  CHECK(story.members[0]->wanted.phase == desired_phase::close);
  CHECK(story.members[0]->wanted.exit_code == 0);
  CHECK(story.members[0]->wanted.text.find("1 of 3 nodes of round 7 have not come back") !=
        std::string::npos);
  story.goodbye(*story.members[0]);
  story.goodbye(*story.members[1]);
  SECTION("the next instance waits for what may live of it") {
    fake_node& next = story.joined("n0", nodes_of(1, 1));
    CHECK(next.wanted.phase == desired_phase::wait);
    story.pass(15s);
    CHECK(next.wanted.phase == desired_phase::wait);
    story.pass(2s);
    CHECK(next.wanted.phase == desired_phase::prepare);
  }
  SECTION("the last one is told when it comes") {
    story.connect(*story.members[2]);
    CHECK(story.members[2]->wanted.phase == desired_phase::close);
    CHECK(story.members[2]->wanted.exit_code == 0);
  }
}

TEST_CASE(
    "a claimant that is lost may run on, with those that it held: no round starts beside them") {
  orphans_story story(2);
  story.connect(*story.members[0]);
  SECTION("for as long as a node lives without a daemon") {
    story.disconnect(*story.members[0]);
    fake_node& newcomer = story.joined("new", nodes_of(1, 1));
    story.pass(30s);
    CHECK(newcomer.wanted.phase == desired_phase::wait);
    CHECK(newcomer.wanted.text.find("from an earlier start of this run") != std::string::npos);
    story.pass(560s);
    CHECK(newcomer.wanted.phase == desired_phase::wait);
    story.pass(11s);
    CHECK(newcomer.wanted.phase == desired_phase::prepare);
  }
  SECTION("for two isolation limits, once it is known to be dead") {
    story.guardian(*story.members[0]);
    fake_node& newcomer = story.joined("new", nodes_of(1, 1));
    story.pass(16s);
    CHECK(newcomer.wanted.phase == desired_phase::wait);
    story.pass(1s);
    CHECK(newcomer.wanted.phase == desired_phase::prepare);
  }
  SECTION("or until they are here") {
    story.disconnect(*story.members[0]);
    story.joined("new", story.settings);
    story.pass(30s);
    story.connect(*story.members[0]);
    story.connect(*story.members[1]);
    CHECK(story.view().instance == 42);
    CHECK(story.view().phase == run_phase::running);
  }
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

// `recovery_claims` without a run: what is waited for when nodes come with an unknown instance.
TEST_CASE("others are waited for until a moment") {
  recovery_claims claims;
  CHECK_FALSE(claims.is_waiting());
  claims.wait_until(machine_origin + 10s);
  claims.end_wait_if_over(machine_origin + 9s);
  CHECK(claims.until() == machine_origin + 10s);
  claims.end_wait_if_over(machine_origin + 10s);
  CHECK_FALSE(claims.is_waiting());
}

TEST_CASE("the newest round that any node of an instance has named counts") {
  recovery_claims claims;
  claims.add(1, 5);
  claims.add(1, 4);
  claims.add(2, 9);
  CHECK(claims.newest_of(1, 0) == 5);
  CHECK(claims.newest_of(1, 6) == 6);
  CHECK(claims.newest_of(2, 0) == 9);
  CHECK(claims.newest_of(3, 7) == 7);
}

TEST_CASE("the number of instances that are remembered is bounded") {
  recovery_claims claims;
  for (instance_id one = 1; one <= 2 * newest_claims_max; ++one)
    claims.add(one, 3);
  CHECK(claims.newest_of(newest_claims_max, 0) == 3);
  CHECK(claims.newest_of(newest_claims_max + 1, 0) == 0);
  claims.add(1, 4);
  CHECK(claims.newest_of(1, 0) == 4);
}

TEST_CASE("the time begins anew for so many claimants only, also when an instance was taken") {
  recovery_claims claims;
  for (std::uint32_t count = 0; count < windows_reopened_max; ++count) {
    CHECK(claims.may_reopen());
    claims.reopen(machine_origin + 1s);
    claims.add(1, 2);
    claims.settle();
    CHECK_FALSE(claims.is_waiting());
    CHECK(claims.newest_of(1, 0) == 0);
  }
  CHECK_FALSE(claims.may_reopen());
}
