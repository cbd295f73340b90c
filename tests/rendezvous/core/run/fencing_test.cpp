// Fencing: when no worker of a node that cannot be reached can be alive.
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/run/recovery.hpp"
#include "rendezvous/core/run/round.hpp"
#include "rendezvous/core/run/stop.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"
#include "tests/support/trio_story.hpp"

#include <algorithm>

using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

namespace {

// Three nodes of which one may be missing; the last call is short, because time does not matter
// here.
struct running_trio : trio_story {
  running_trio() { start_round(); }

  void stop_but(const fake_node& silent) {
    for (fake_node* const who : {a, b, c}) {
      if (who == &silent || who->wanted.phase != desired_phase::stop) continue;
      say(*who, member_phase::stopping);
      say(*who, member_phase::stopped);
    }
  }
};

}  // namespace

TEST_CASE("a silent node is lost after node_timeout, its workers after the isolation limit") {
  running_trio story;
  story.pass(9900ms, {story.c});
  CHECK(story.view().phase == run_phase::running);
  story.pass(200ms, {story.c});
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(story.c->connection == 0);
  const time_point stopped = story.now;
  story.stop_but(*story.c);
  CHECK(story.why().find("c cannot be reached: waiting until its workers must have ended") !=
        std::string::npos);
  // 8 s, 2 % for clocks that drift, and 250 ms for a kill that is late.
  story.pass(8400ms);
  CHECK(story.view().phase == run_phase::stopping);
  story.pass(100ms);
  CHECK(story.view().round == 2);
  CHECK(story.now - stopped < 8550ms);
}

TEST_CASE("a leader that is lost with a member takes two: that one may hang on its tether") {
  running_trio story;
  story.disconnect(*story.a);
  story.disconnect(*story.c);
  story.pass(2s);
  CHECK(story.view().phase == run_phase::stopping);
  story.say(*story.b, member_phase::stopped);
  story.pass(16550ms);
  CHECK(story.view().phase == run_phase::stopping);
  story.pass(100ms);
  CHECK(story.view().round == 2);
  story.start_round();
  CHECK(story.b->wanted.assignment->group_rank == 0);
}

TEST_CASE("a host without power is past its limit when it is lost") {
  running_trio story;
  story.pass(10100ms, {story.c});
  CHECK(story.view().phase == run_phase::stopping);
  const time_point stopped = story.now;
  const duration limit = with_margin(story.a->greeting.settings.timing.isolation_limit);
  SECTION("by the leader's word") {
    story.a->state.tether_ages = {{2, 10s}};
    story.stop_but(*story.c);
    CHECK(story.view().phase != run_phase::stopping);
    story.pass(600ms);
    CHECK(story.view().round == 2);
  }
  SECTION("from when the leader answered it last, though that was after its word to the daemon") {
    story.a->state.tether_ages = {{2, 4s}};
    story.stop_but(*story.c);
    story.pass(limit - 4s - 100ms);
    CHECK(story.view().phase == run_phase::stopping);
    story.pass(200ms);
    CHECK(story.view().round == 2);
  }
  SECTION("the leader's word on another one is none") {
    story.a->state.tether_ages = {{1, 10s}, {3, 10s}};
    story.stop_but(*story.c);
    story.pass(8400ms);
    CHECK(story.view().phase == run_phase::stopping);
  }
  SECTION("what it says while the round runs for it counts for nothing") {
    story.a->state.tether_ages = {{2, 10s}};
    story.say(*story.b, member_phase::stopped);
    story.say(*story.a);
    story.a->state.tether_ages = {};
    story.say(*story.a, member_phase::stopped);
    story.pass(8400ms);
    CHECK(story.view().phase == run_phase::stopping);
  }
  CHECK(story.now - stopped < 8550ms);
}

TEST_CASE("of two lost members the one whose tether held counts from the acknowledgement") {
  running_trio story;
  story.pass(10100ms, {story.b, story.c});
  CHECK(story.view().phase == run_phase::stopping);
  story.a->state.tether_ages = {{2, 10s}};
  story.say(*story.a, member_phase::stopped);
  story.pass(8400ms);
  CHECK(story.view().phase == run_phase::stopping);
  story.pass(100ms);
  CHECK(story.view().phase != run_phase::stopping);
}

TEST_CASE("the last message of a lost member counts if its tether was broken before") {
  running_trio story;
  story.disconnect(*story.c);
  story.pass(2s);
  CHECK(story.view().phase == run_phase::stopping);
  story.a->state.tether_ages = {{2, 30s}};
  story.stop_but(*story.c);
  story.pass(6400ms);
  CHECK(story.view().phase == run_phase::stopping);
  story.pass(100ms);
  CHECK(story.view().round == 2);
}

TEST_CASE("a leader without power is past its limit if any member reports no ack for that long") {
  running_trio story;
  story.pass(10100ms, {story.a});
  CHECK(story.view().phase == run_phase::stopping);
  story.b->state.tether_ages = {{0, 4s}};
  story.c->state.tether_ages = {{0, 10s}};
  SECTION("the one that had no ack for longest is enough") {
    story.stop_but(*story.a);
    CHECK(story.view().phase != run_phase::stopping);
    story.pass(600ms);
    CHECK(story.view().round == 2);
  }
  SECTION("a member's word on another one is none") {
    story.b->state.tether_ages = story.c->state.tether_ages = {{2, 10s}};
    story.stop_but(*story.a);
    story.pass(8400ms);
    CHECK(story.view().phase == run_phase::stopping);
  }
}

TEST_CASE("a guardian's report or a goodbye is proof of death: the next round does not wait") {
  running_trio story;
  SECTION("guardian") {
    story.guardian(*story.a);
  }
  SECTION("goodbye") {
    story.goodbye(*story.a);
  }
  CHECK(story.view().phase == run_phase::stopping);
  story.stop_but(*story.a);
  story.pass(600ms);
  CHECK(story.view().round == 2);
}

TEST_CASE("proof that comes while the lost are being waited for ends the wait") {
  running_trio story;
  story.disconnect(*story.c);
  story.pass(2s);
  story.stop_but(*story.c);
  story.pass(1s);
  CHECK(story.view().phase == run_phase::stopping);
  story.guardian(*story.c);
  story.pass(600ms);
  CHECK(story.view().round == 2);
}

TEST_CASE("if no member can be heard, the next round waits for orphan_limit") {
  running_trio story;
  for (fake_node* const who : {story.a, story.b, story.c})
    story.disconnect(*who);
  story.pass(2s);
  CHECK(story.view().phase == run_phase::stopping);
  // It is said at once, and only once, because no other node is left to be told.
  CHECK(std::count_if(story.notes.begin(), story.notes.end(), [](const std::string& each) {
          return each.find(
                     "no node of it can be reached, so its workers may still run: a, b, c; "
                     "waiting until one of them comes back, or for 10 min (orphan_limit)") !=
                 std::string::npos;
        }) == 1);
  fake_node& newcomer = story.joined("d", nodes_of(1, 3));
  story.pass(9min);
  CHECK(story.view().round == 1);
  CHECK(story.why().find("no node of it can be reached") != std::string::npos);
  story.pass(62s);
  CHECK(story.view().round == 2);
  CHECK(newcomer.wanted.phase == desired_phase::prepare);
}

TEST_CASE("a node that comes back while the round stops is waited for") {
  running_trio story;
  story.disconnect(*story.c);
  story.pass(2s);
  story.stop_but(*story.c);
  story.connect(*story.c);
  CHECK(story.c->wanted.phase == desired_phase::stop);
  story.pass(50s);
  CHECK(story.view().round == 1);
  story.stop_all();
  story.pass(600ms);
  CHECK(story.view().round == 2);
}

TEST_CASE("a node that comes back in an older round is fenced and joins again") {
  running_trio story;
  story.pass(10s, {story.c});
  story.stop_but(*story.c);
  story.pass(9s);
  story.start_round();
  REQUIRE(story.view().round == 2);
  story.connect(*story.c);
  CHECK(story.c->wanted.phase == desired_phase::fence);
  CHECK(story.c->wanted.round >= 2);
  story.say(*story.c);
  CHECK(story.c->wanted.phase == desired_phase::fence);
  story.rejoin(*story.c);
  CHECK(story.c->wanted.phase == desired_phase::wait);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("a node that is to be fenced is not answered: the ack would renew its lease") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 2));
  fake_node& b = story.joined("b", nodes_of(1, 2));
  story.start_round();
  story.guardian(b);
  story.stop_all();
  story.pass(600ms);
  story.start_round();
  REQUIRE(a.wanted.round == 2);
  // Its host stood still before it had read the assignment of round 1.
  fake_node& late = b;
  late.state.phase = member_phase::assigned;
  late.answered_before_wanted = false;
  late.wanted = {};
  story.connect(late);
  CHECK(late.wanted.phase == desired_phase::fence);
  CHECK(late.answered < late.state.seq);
  CHECK_FALSE(late.answered_before_wanted);
  late.state.phase = member_phase::stopping;
  story.say(late);
  CHECK(late.answered < late.state.seq);
  story.rejoin(late);
  CHECK(late.answered == late.state.seq);
}

TEST_CASE("an agent of another instance is fenced") {
  running_trio story;
  fake_node& stray = story.node("stray", nodes_of(1, 3));
  stray.greeting.settings = story.a->greeting.settings;
  stray.state.instance = 4711;
  stray.state.round = 9;
  stray.state.phase = member_phase::running;
  story.connect(stray);
  CHECK(stray.wanted.phase == desired_phase::fence);
}

TEST_CASE("a node that stopped its workers by itself ends the round as a node loss") {
  running_trio story;
  story.b->state.phase = member_phase::stopped;
  story.say(*story.b);
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(story.a->wanted.text == "b was lost: it stopped its workers by itself");
}

TEST_CASE("a member whose death was told and that came back is waited for as any other") {
  running_trio story;
  story.guardian(*story.b);
  story.connect(*story.b);
  story.stop_all();
  story.pass(600ms);
  story.start_round();
  REQUIRE(story.b->wanted.phase == desired_phase::run);
  story.fail(*story.a, 3);
  for (fake_node* const who : {story.a, story.c})
    story.say(*who, member_phase::stopped);
  CHECK(story.view().phase == run_phase::stopping);
  story.say(*story.b, member_phase::stopped);
  CHECK(story.view().round == 3);
}

TEST_CASE("a member that cannot be reached is counted once, though it is lost twice") {
  running_trio story;
  story.fail(*story.a, 1);
  story.say(*story.a, member_phase::stopped);
  story.disconnect(*story.c);
  // b sends statuses but obeys no order, so it counts as lost.
  story.pass(60s);
  story.connect(*story.c);
  story.say(*story.c, member_phase::stopping);
  story.disconnect(*story.b);
  story.pass(30s);
  CHECK(story.view().round == 1);
  story.say(*story.c, member_phase::stopped);
  story.pass(1s);
  CHECK(story.view().round == 2);
}

// The agent in which an earlier daemon lived was killed with it. Its guardian tells the next daemon
// where its workers were, so that no node has to wait for them.
namespace {

// What the guardian of member 0 reports, which led round 7 and hosted the daemon.
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

TEST_CASE("a guardian's report that comes while the round stops ends the wait for that node") {
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

TEST_CASE("a guardian's report about another round or instance, or about none, proves nothing") {
  orphans_story story(2);
  const guardian_reported word = GENERATE(word_of_leader(6), word_of_leader(8),
                                          word_of_leader(7, 41), guardian_reported{{9, 9}});
  story.step(word);
  story.connect(*story.members[1]);
  CHECK(story.members[1]->desired_count == 0);
  story.pass(10s);
  story.stop_all();
  story.pass(8s);
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

TEST_CASE("a round is reported with the node that its guardian has told of, and since its start") {
  orphans_story story(2);
  fake_node& survivor = *story.members[1];
  survivor.state.ran = 40s;
  const bool has_lost_peer = GENERATE(false, true);
  if (has_lost_peer) {
    survivor.state.phase = member_phase::failed;
    survivor.state.causes = {
        cause{.round = 7, .group_rank = 1, .is_secondary = true, .text = "reset"}};
  }
  story.connect(survivor);
  story.pass(2s);
  guardian_reported word = word_of_leader();
  word.who = {"node-a", "10.0.0.9", 0, 2};
  SECTION("with its name and ranks") {
    story.step(word);
  }
  SECTION("or, by one that says less, that of the leader") {
    word.who = {};
    story.step(word);
  }
  survivor.state.ends = {{ending::stopped, 2, 3}};
  story.stop_all();
  REQUIRE(story.view().reports.size() == 1);
  const round_report report = story.view().reports.front();
  REQUIRE(report.root_cause);
  const std::string name = word.who.label.empty() ? "n0" : "node-a";
  CHECK(describe(*report.root_cause) ==
        name + " was lost: its ddprun process died, and its guardian killed the workers");
  CHECK(report.text == "going on; no restart is charged for that");
  CHECK(report.lasted >= 42s);
  CHECK(report.lasted < 43s);
  CHECK(report.world_size == 4);
  std::vector<ended_ranks> ends = {{ending::stopped, 2, 3}};
  if (!word.who.label.empty()) ends.insert(ends.begin(), {ending::lost, 0, 1});
  CHECK(report.ends == ends);
}

TEST_CASE("ranks that a guardian claims and no round has are not told") {
  orphans_story story(2);
  story.connect(*story.members[1]);
  guardian_reported word = word_of_leader();
  word.who = {"node-a", "10.0.0.9", 3, 2};
  story.step(word);
  story.stop_all();
  REQUIRE(story.view().reports.size() == 1);
  const round_report report = story.view().reports.front();
  for (const ended_ranks& one : report.ends)
    CHECK(one.how != ending::lost);
}

TEST_CASE("a lost peer of a round whose other node does not come back is that node") {
  orphans_story story(3);
  const bool do_others_say_so = GENERATE(true, false);
  for (const std::uint32_t group_rank : {0U, 1U}) {
    fake_node& who = *story.members[group_rank];
    if (do_others_say_so) {
      who.state.phase = member_phase::failed;
      who.state.causes = {
          cause{.round = 7, .group_rank = group_rank, .is_secondary = true, .text = "reset"}};
    }
    story.connect(who);
  }
  story.pass(10s);
  story.stop_all();
  story.pass(40s);
  REQUIRE(story.view().reports.size() == 1);
  const round_report report = story.view().reports.front();
  REQUIRE(report.root_cause);
  CHECK(describe(*report.root_cause) ==
        "the node of group rank 2 was lost: it has not come back since the rendezvous daemon was "
        "restarted");
  CHECK(report.text == "going on; no restart is charged for that");
}

TEST_CASE("a round that goes on under the next daemon has lasted since its start") {
  orphans_story story(2);
  for (fake_node* const who : story.members) {
    who->state.ran = 40s;
    story.connect(*who);
  }
  story.pass(3s);
  story.fail(*story.members[1], 3);
  story.stop_all();
  REQUIRE(story.view().reports.size() == 1);
  CHECK(story.view().reports.front().lasted >= 43s);
  CHECK(story.view().reports.front().lasted < 44s);
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

// round_stop without a run: when the next round may start.
namespace {

constexpr machine_time ordered = machine_time{} + 1000s;
constexpr std::uint64_t step = 7;

round_stop fresh_stop() {
  return round_stop(ordered, step, 10s, false, nullptr);
}

// Members that cannot be reached, and of which nothing is known.
round_memberships of_nobody(std::uint32_t size) {
  round_memberships memberships;
  memberships.open(size);
  return memberships;
}

}  // namespace

TEST_CASE("if no member lets go, the orphan limit counts from the last message") {
  const timers timing;
  round_stop stop = fresh_stop();
  CHECK_FALSE(stop.has_let_go());
  CHECK(stop.fenced_at(timing, of_nobody(3)) == ordered + timing.orphan_limit);
  stop.leased_until(ordered - 3s);
  CHECK(stop.fenced_at(timing, of_nobody(3)) == ordered + timing.orphan_limit);
  stop.leased_until(ordered + 3s);
  CHECK(stop.fenced_at(timing, of_nobody(3)) == ordered + 3s + timing.orphan_limit);
}

TEST_CASE("a member that lets go breaks the chain in two limits, the leader in one") {
  const timers timing;
  round_stop stop = fresh_stop();
  stop.acknowledge(ordered + 1s, false);
  stop.acknowledge(ordered + 2s, false);
  const duration one = with_margin(timing.isolation_limit);
  const duration two = with_margin(2 * timing.isolation_limit);
  CHECK(stop.fenced_at(timing, of_nobody(3)) == ordered + 1s + two);
  CHECK(stop.fenced_at(timing, of_nobody(1)) == ordered + 1s + one);  // the leader alone
  stop.leased_until(ordered + 4s);
  CHECK(stop.fenced_at(timing, of_nobody(3)) == ordered + 4s + two);
  CHECK(stop.fenced_at(timing, of_nobody(1)) == ordered + 4s + one);
  stop.acknowledge(ordered + 5s, true);
  CHECK(stop.fenced_at(timing, of_nobody(3)) == ordered + 5s + one);
  CHECK(stop.has_let_go());
}

TEST_CASE("of members that this daemon has not heard no tether tells enough") {
  const timers timing;
  round_stop stop = fresh_stop();
  stop.acknowledge(ordered + 1s, false, {{0, 30s}});
  CHECK(stop.fenced_at(timing, of_nobody(1)) == ordered + 1s + with_margin(timing.isolation_limit));
  stop.acknowledge(ordered + 2s, true, {{1, 30s}});
  CHECK(stop.fenced_at(timing, of_nobody(2)) == ordered + 2s + with_margin(timing.isolation_limit));
}

TEST_CASE("the margin is more than 1 % on both sides and a late kill") {
  CHECK(with_margin(100s) == 100s + 2s + late_kill);
}

TEST_CASE("a stop is overdue when the last that was told has had its time") {
  round_stop stop = fresh_stop();
  CHECK(stop.overdue_at() == ordered + 10s);
  stop.tell_late(ordered + 4s);
  CHECK(stop.overdue_at() == ordered + 14s);
  CHECK(stop.ordered_at() == ordered);
}

TEST_CASE("only a message of a later step counts as sent after the order") {
  const round_stop stop = fresh_stop();
  CHECK_FALSE(stop.precedes(step - 1));
  CHECK_FALSE(stop.precedes(step));
  CHECK(stop.precedes(step + 1));
  CHECK(round_stop().precedes(1));
}
