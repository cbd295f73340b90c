// Rule 3: from the choice to the moment when all workers run; and the memberships of the round.
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/core/run/nodes.hpp"
#include "rendezvous/core/run/record.hpp"
#include "rendezvous/core/run/round.hpp"
#include "rendezvous/core/run/view.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/trio_story.hpp"

#include <csignal>
#include <string>
#include <vector>

using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

// From the choice of a round until all its workers run: what members are told, and which members'
// messages count.
namespace {

void prepare(run_story& story, fake_node& leader, std::uint16_t service, std::uint16_t master) {
  run_story::obey(leader);
  leader.state.service_port = service;
  leader.state.master_port = master;
  story.say(leader, member_phase::preparing);
}

}  // namespace

TEST_CASE("members are told the leader's ports, data and address, each with its own place") {
  trio_story story(nodes_of(3, 3));
  story.a->state.leader_data = {"id-0,id-1", "two ids"};
  prepare(story, *story.a, 4001, 4002);
  std::uint32_t group_rank = 0;
  for (const fake_node* const who : {story.a, story.b, story.c}) {
    REQUIRE(who->wanted.assignment);
    const assignment& assigned = *who->wanted.assignment;
    CHECK(assigned.group_rank == group_rank);
    CHECK(assigned.rank_first == 2 * group_rank);
    CHECK(assigned.group_world_size == 3);
    CHECK(assigned.world_size == 6);
    CHECK(assigned.tether_port == 4001);
    CHECK(assigned.master_port == 4002);
    CHECK(assigned.master_address == story.a->greeting.own_address);
    CHECK(assigned.leader_data == leader_data{"id-0,id-1", "two ids"});
    CHECK(who->wanted.members ==
          "ranks 0-1 on a (10.0.0.1), 2-3 on b (10.0.0.2), 4-5 on c (10.0.0.3)");
    ++group_rank;
  }
  CHECK(story.view().master_port == 4002);
  CHECK(story.view().world_size == 6);
}

TEST_CASE("a member is told again which ranks are where only if that has changed") {
  trio_story story(nodes_of(2, 3, 3));
  story.start_round();
  story.fail(*story.b, 3);
  story.stop_all();
  story.start_round();
  for (const fake_node* const who : {story.a, story.b, story.c}) {
    REQUIRE(who->wanted.round == 2);
    CHECK(who->wanted.members.empty());
  }
  SECTION("another node in the place of one") {
    story.goodbye(*story.c);
    story.stop_all();
    fake_node& late = story.joined("d", nodes_of(2, 3, 3));
    story.pass(1s);
    story.start_round();
    REQUIRE(late.wanted.phase == desired_phase::run);
    CHECK(late.wanted.members ==
          "ranks 0-1 on a (10.0.0.1), 2-3 on b (10.0.0.2), 4-5 on d (10.0.0.4)");
    CHECK(story.a->wanted.members == late.wanted.members);
  }
  SECTION("a round that ends before anybody says that it has heard of it") {
    story.goodbye(*story.c);
    story.stop_all();
    story.pass(60s);
    prepare(story, story.node_in(desired_phase::prepare), 4001, 4002);
    CHECK_FALSE(story.b->wanted.members.empty());
  }
}

TEST_CASE("where the leader names no master port its service is the master") {
  trio_story story(nodes_of(3, 3));
  prepare(story, *story.a, 4001, 0);
  REQUIRE(story.b->wanted.assignment);
  CHECK(story.b->wanted.assignment->master_port == 4001);
}

TEST_CASE("a round is assigned only when its leader reports a port") {
  trio_story story(nodes_of(3, 3));
  prepare(story, *story.b, 4001, 4001);  // nobody asked it to
  CHECK(story.view().phase == run_phase::preparing);
  prepare(story, *story.a, 0, 0);
  CHECK(story.view().phase == run_phase::preparing);
  story.a->state.service_port = 4001;
  status old = story.a->state;
  old.round = 0;
  story.step(core::status_received{story.a->connection, old});
  CHECK(story.view().phase == run_phase::preparing);
  prepare(story, *story.a, 4001, 4001);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("every member is counted once on its way to running, however often it says so") {
  trio_story story(nodes_of(3, 3));
  prepare(story, *story.a, 4001, 4001);
  for (int times = 0; times < 3; ++times) {
    story.say(*story.a, member_phase::running);
    story.say(*story.b, member_phase::running);
  }
  CHECK(story.why().find("round 1 of 3 nodes and 6 workers starts; running on 2 of 3 nodes") == 0);
  SECTION("one is missing") {
    story.pass(60s);
    CHECK(story.view().phase == run_phase::stopping);
  }
  SECTION("one has succeeded at once") {
    story.say(*story.c, member_phase::succeeded);
    story.say(*story.c, member_phase::succeeded);
    CHECK(story.why().find("round 1 of 3 nodes and 6 workers runs; 1 node is done") == 0);
    story.pass(70s);
    CHECK(story.view().phase == run_phase::running);
    // A status that was sent before, and arrives only now, sets nothing back.
    story.say(*story.c, member_phase::starting);
    story.say(*story.a, member_phase::succeeded);
    story.say(*story.b, member_phase::succeeded);
    CHECK(story.view().phase == run_phase::closed);
    CHECK(story.view().exit_code == 0);
  }
}

TEST_CASE("what a member reports of an older round does not count for this one") {
  trio_story story(nodes_of(3, 3));
  story.start_round();
  story.fail(*story.b, 3);
  story.stop_all();
  story.start_round();
  REQUIRE(story.view().round == 2);
  status old = story.b->state;
  old.round = 1;
  old.phase = member_phase::failed;
  ++old.seq;
  story.step(core::status_received{story.b->connection, old});
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("success counts for its round only") {
  trio_story story(nodes_of(3, 3));
  story.start_round();
  story.say(*story.a, member_phase::succeeded);
  story.say(*story.b, member_phase::succeeded);
  story.fail(*story.c, 3);
  story.stop_all();
  story.start_round();
  REQUIRE(story.view().round == 2);
  story.say(*story.c, member_phase::succeeded);
  CHECK(story.view().phase == run_phase::running);
  story.say(*story.a, member_phase::succeeded);
  CHECK(story.view().phase == run_phase::running);
  story.say(*story.b, member_phase::succeeded);
  CHECK(story.view().phase == run_phase::closed);
}

TEST_CASE("causes count for their round only") {
  trio_story story(nodes_of(3, 3, 1));
  story.start_round();
  cause old;
  old.round = 7;
  old.kind = cause_class::signal;
  old.code = SIGKILL;
  story.c->state.causes = {old};
  story.fail(*story.b, 3);
  story.stop_all();
  REQUIRE(story.view().root_cause);
  CHECK(story.view().root_cause->code == 3);
  story.start_round();
  story.fail(*story.b, 5);
  story.stop_all();
  CHECK(story.view().exit_code == 5);
}

TEST_CASE("a node that failed and does not say how has exited with 1") {
  trio_story story(nodes_of(3, 3, 0));
  story.start_round();
  story.say(*story.b, member_phase::failed);
  CHECK_FALSE(story.a->wanted.is_unreported);
  story.stop_all();
  REQUIRE(story.view().root_cause);
  const cause why = *story.view().root_cause;
  CHECK(why.kind == cause_class::exit);
  CHECK(why.code == 1);
  CHECK(why.round == 1);
  CHECK(why.group_rank == 1);
  CHECK(why.node == "b");
  CHECK(story.view().exit_code == 1);
}

TEST_CASE(
    "a node that stopped by itself may not be the only one, so the settle time is waited for") {
  trio_story story(nodes_of(2, 3));
  story.pass(30s);
  story.start_round();
  story.say(*story.b, member_phase::stopping);
  CHECK(story.a->wanted.grace == 5s);
  story.stop_all();
  REQUIRE(story.view().root_cause);
  CHECK(story.view().root_cause->kind == cause_class::node_lost);
  CHECK(story.view().root_cause->group_rank == 1);
  CHECK(story.view().phase == run_phase::settling);
  CHECK(story.view().node_losses == 1);
}

TEST_CASE("a member that killed its workers and joins again") {
  trio_story story(nodes_of(2, 3));
  story.start_round();
  SECTION("while its round runs: it is lost, and nothing of it lives") {
    story.rejoin(*story.b);
    CHECK(story.view().phase == run_phase::stopping);
    CHECK(story.a->wanted.text == "b was lost: it stopped its workers by itself");
    story.stop_all();
    CHECK(story.view().phase == run_phase::settling);
  }
  SECTION("after it had succeeded: nothing") {
    story.say(*story.b, member_phase::succeeded);
    story.rejoin(*story.b);
    CHECK(story.view().phase == run_phase::running);
    story.say(*story.a, member_phase::succeeded);
    story.say(*story.c, member_phase::succeeded);
    CHECK(story.view().exit_code == 0);
  }
  SECTION("while its round stops: it has stopped, and has let go") {
    story.disconnect(*story.c);
    story.fail(*story.a, 1);
    story.rejoin(*story.b);
    story.say(*story.a, member_phase::stopped);
    story.pass(2s);
    CHECK(story.view().phase == run_phase::stopping);
    story.pass(8s * 102 / 100 + 600ms);
    CHECK(story.view().round == 2);
  }
}

TEST_CASE(
    "if the leader is lost while it prepares, members that were told nothing count as stopped") {
  trio_story story(nodes_of(2, 3));
  story.pass(30s);
  REQUIRE(story.view().phase == run_phase::preparing);
  SECTION("the leader has died") {
    story.guardian(*story.a);
    CHECK(story.view().phase != run_phase::stopping);
  }
  SECTION("the leader cannot be reached: it was only asked to prepare") {
    story.disconnect(*story.a);
    story.pass(2s);
    CHECK(story.view().phase != run_phase::stopping);
  }
  story.beat_all();
  story.pass(600ms);
  CHECK(story.view().round == 2);
  story.start_round();
  CHECK(story.b->wanted.assignment->group_rank == 0);
  CHECK(story.b->wanted.assignment->group_world_size == 2);
}

TEST_CASE("a member that cannot be reached while its leader prepares was told nothing") {
  trio_story story(nodes_of(2, 3));
  story.pass(30s);
  story.disconnect(*story.b);
  story.pass(2s);
  CHECK(story.b->wanted.phase == desired_phase::wait);
  story.stop_all();
  story.beat_all();
  story.pass(600ms);
  CHECK(story.view().round == 2);
}

TEST_CASE("a leader that does not prepare is told to stop; the others never heard of the round") {
  trio_story story(nodes_of(3, 3));
  const std::size_t told = story.b->desired_count;
  story.pass(60s);
  CHECK(story.a->wanted.phase == desired_phase::stop);
  CHECK(story.a->wanted.grace == 5s);
  CHECK_FALSE(story.a->wanted.is_unreported);
  CHECK(story.b->wanted.phase == desired_phase::wait);
  CHECK(story.b->desired_count > told);  // why
  story.stop_all();
  REQUIRE(story.view().root_cause);
  const cause why = *story.view().root_cause;
  CHECK(why.kind == cause_class::start);
  CHECK(why.group_rank == 0);
  CHECK(why.node == "a");
  CHECK(why.round == 1);
}

TEST_CASE("of several that do not start the first is named") {
  trio_story story(nodes_of(3, 3, 0));
  prepare(story, *story.a, 4001, 4001);
  story.say(*story.a, member_phase::running);
  story.say(*story.c, member_phase::starting);
  story.pass(60s);
  CHECK(story.a->wanted.text ==
        "b: has not started within 60 s (start_timeout), is still joined; so is 1 more node");
  story.stop_all();
  REQUIRE(story.view().root_cause);
  CHECK(story.view().root_cause->text ==
        "has not started within 60 s (start_timeout), is still joined; so is 1 more node");
  CHECK(story.view().root_cause->group_rank == 1);
}

// `round_numbers` without a run.
TEST_CASE("each round has the next number, reserved when it is given") {
  round_numbers rounds(0);
  rounds.begin_instance(0);
  CHECK(rounds.reserved() == rounds_block);
  for (round_number expected = 1; expected <= 5 * rounds_block; ++expected) {
    rounds.take_next();
    REQUIRE(rounds.newest() == expected);
    REQUIRE(rounds.reserved() >= expected);
  }
}

TEST_CASE("where numbers are reserved ahead none is reserved when it is given") {
  round_numbers rounds(0);
  rounds.begin_instance(0);
  for (int count = 0; count < 100; ++count) {
    const round_number before = rounds.reserved();
    rounds.take_next();
    REQUIRE(rounds.reserved() == before);
    rounds.reserve_ahead();
  }
}

TEST_CASE("the next round is above whatever others have heard of") {
  round_numbers rounds(0);
  rounds.begin_instance(0);
  rounds.raise_newest(7);
  CHECK(rounds.newest() == 7);
  rounds.raise_newest(3);
  CHECK(rounds.newest() == 7);
  rounds.raise_floor(40);
  CHECK(rounds.newest() == 7);
  CHECK(rounds.highest() == 40);
  rounds.take_next();
  CHECK(rounds.newest() == 41);
  CHECK(rounds.reserved() >= 41);
}

TEST_CASE("an instance begins with its first number, above the floor of the run") {
  round_numbers rounds(0);
  rounds.begin_instance(0);
  rounds.take_next();
  rounds.raise_floor(9);
  rounds.begin_instance(0);
  CHECK(rounds.newest() == 0);
  CHECK(rounds.reserved() == 9 + rounds_block);
  rounds.take_next();
  CHECK(rounds.newest() == 10);
}

TEST_CASE("what was reserved by another daemon is gone on from") {
  round_numbers rounds(0);
  rounds.set_reserved(32);
  rounds.raise_floor(rounds.reserved());
  rounds.take_next();
  CHECK(rounds.newest() == 33);
  rounds.drop_floor();
  CHECK(rounds.highest() == 33);
}

TEST_CASE("a round's members are named with their ranks and addresses") {
  CHECK(members_text({{"a", "10.0.0.1", 0, 2}, {"b", "10.0.0.2", 2, 2}}, 2, 4) ==
        "ranks 0-1 on a (10.0.0.1), 2-3 on b (10.0.0.2)");
  CHECK(members_text({{"a", "", 0, 1}, {"b", "10.0.0.2", 1, 3}}, 2, 4) ==
        "ranks 0 on a, 1-3 on b (10.0.0.2)");
}

TEST_CASE("a round of one node needs no address") {
  CHECK(members_text({{"a", "127.0.0.1", 0, 1}}, 1, 1) == "rank 0 on a");
  CHECK(members_text({{"a", "127.0.0.1", 0, 8}}, 1, 8) == "ranks 0-7 on a");
}

TEST_CASE("of many members the first are named, the others counted") {
  std::vector<named_member> many;
  for (std::uint32_t index = 0; index < members_named_max + 3; ++index)
    many.push_back({"n", "1.1.1.1", 2 * index, 2});
  CHECK(members_text(many, 16, 32) ==
        "ranks 0-1 on n (1.1.1.1), 2-3 on n (1.1.1.1), 4-5 on n (1.1.1.1), 6-7 on n (1.1.1.1), "
        "8-9 on n (1.1.1.1), 10-11 on n (1.1.1.1) and 10 more nodes with 20 workers");
  CHECK(members_text({{"a", "", 0, 1}}, 2, 2) == "ranks 0 on a and 1 more node with 1 worker");
}

TEST_CASE("the members' text is bounded, whatever they are called") {
  const std::string label(256, 'n');
  const std::string wide = [] {
    std::string text;
    for (int count = 0; count < 80; ++count)
      text += "\xc3\xa4";
    return text;
  }();
  for (const std::string& name : {label, wide}) {
    const std::vector<named_member> all(members_named_max, {name, name, 4'294'000'000U, 4096});
    const std::string text = members_text(all, 1'000'000, 4'294'967'295U);
    CHECK(text.size() <= members_text_max);
    CHECK(text.find("... (") != std::string::npos);
    CHECK(text.find(" more nodes with ") != std::string::npos);
    CHECK(is_valid_utf8(text));
  }
}

TEST_CASE("a node is shown with the address at which it can be reached") {
  CHECK(known_address({"fast.example", "10.0.0.1", "10.0.0.1", ""}, "") == "fast.example");
  CHECK(known_address({"", "10.0.0.1", "192.0.2.1", ""}, "") == "10.0.0.1");
  CHECK(known_address({"", "127.0.0.1", "::ffff:10.0.0.1", ""}, "") == "10.0.0.1");
  CHECK(known_address({"", "127.0.0.1", "127.0.0.1", ""}, "") == "127.0.0.1");
  CHECK(known_address({"", "", "::1", ""}, "") == "::1");
  CHECK(known_address({"", "127.0.0.1", "127.0.0.1", ""}, "::ffff:10.0.0.9") == "10.0.0.9");
  CHECK(known_address({"", "127.0.0.1", "127.0.0.1", ""}, "127.0.0.1") == "127.0.0.1");
  CHECK(known_address({"", "10.0.0.1", "10.0.0.1", ""}, "10.0.0.9") == "10.0.0.1");
}

// `round_memberships` without a run: which nodes hold them, and how many have which liveness.

namespace {

// A round of two whose holders were told to run.
struct two_members {
  node leader;
  node other;
  round_memberships memberships;
  membership* first = nullptr;
  membership* second = nullptr;

  two_members() {
    memberships.open(2);
    first = &memberships.take(0, leader);
    second = &memberships.take(1, other);
    memberships.command(*first, command::run);
    memberships.command(*second, command::run);
  }
};

}  // namespace

TEST_CASE("a membership with an unknown holder may be dead") {
  round_memberships memberships;
  memberships.open(2);
  memberships.mark_dead(*memberships.begin());
  CHECK(memberships.unknown() == 1);
  CHECK(memberships.unreachable() == 1);
  CHECK_FALSE(memberships.is_free(0));
  CHECK(memberships.is_free(1));
  CHECK(memberships.are_all_ended_or_unreachable());
}

TEST_CASE("a membership is unreachable until its holder is known") {
  node who;
  round_memberships memberships;
  memberships.open(2);
  CHECK(memberships.unknown() == 2);
  CHECK(memberships.unreachable() == 2);
  CHECK(memberships.are_all_ended_or_unreachable());

  const membership& taken = memberships.take(1, who, 4);
  CHECK(who.membership == &taken);
  CHECK(who.last_group_rank == 1U);
  CHECK(taken.rank_first() == 4);
  CHECK(taken.liveness() == worker_liveness::in_reach);
  CHECK(memberships.unknown() == 1);
  CHECK_FALSE(memberships.are_all_ended_or_unreachable());

  memberships.grow(4);
  CHECK(who.membership == &taken);
  CHECK(memberships.unknown() == 3);
  CHECK(memberships.is_free(3));
}

TEST_CASE("a member that leaves a round leaves nothing behind in the next") {
  two_members round;
  round.memberships.advance(*round.first, member_phase::running);
  round.memberships.succeed(*round.first);
  round.memberships.mark_dead(*round.second);
  round.memberships.acknowledge(*round.second);
  round.memberships.start_until(machine_time{} + std::chrono::seconds(1));
  round.memberships.clear();
  CHECK(round.leader.membership == nullptr);
  CHECK(round.leader.last_group_rank == 0U);

  round.memberships.open(1);
  const membership& fresh = round.memberships.take(0, round.other);
  CHECK(fresh.command() == command::none);
  CHECK(fresh.phase() == member_phase::joined);
  CHECK_FALSE(fresh.has_ended());
  CHECK_FALSE(fresh.has_acknowledged());
  CHECK(round.memberships.running() == 0);
  CHECK(round.memberships.succeeded() == 0);
  CHECK_FALSE(round.memberships.start_deadline());
}

TEST_CASE("the start is over when the last membership runs") {
  two_members round;
  const machine_time due = machine_time{} + std::chrono::seconds(60);
  round.memberships.start_until(due);
  CHECK_FALSE(round.memberships.advance(*round.first, member_phase::running));
  CHECK_FALSE(round.memberships.advance(*round.first, member_phase::succeeded));
  CHECK(round.memberships.running() == 1);
  CHECK(round.memberships.start_deadline() == due);

  CHECK_FALSE(round.memberships.advance(*round.second, member_phase::starting));
  CHECK(round.memberships.advance(*round.second, member_phase::running));
  CHECK(round.memberships.running() == 2);
  CHECK_FALSE(round.memberships.start_deadline());
}

TEST_CASE("a membership has one liveness, and is counted once") {
  two_members round;
  membership& one = *round.second;
  round.memberships.mark_unreachable(one);
  round.memberships.mark_unreachable(one);
  CHECK(round.memberships.unreachable() == 1);
  CHECK(one.phase() == member_phase::lost);

  CHECK(round.memberships.mark_reached(one));
  CHECK_FALSE(round.memberships.mark_reached(one));
  CHECK(round.memberships.unreachable() == 0);
  CHECK(one.phase() == member_phase::stopping);

  round.memberships.mark_unreachable(one);
  round.memberships.mark_ended(one);
  CHECK(round.memberships.unreachable() == 0);
  CHECK(one.phase() == member_phase::stopped);
  CHECK_FALSE(round.memberships.are_all_ended_or_unreachable());

  round.memberships.mark_ended(*round.first);
  CHECK(round.memberships.are_all_ended_or_unreachable());
  round.memberships.mark_dead(one);
  round.memberships.mark_ended(one);
  CHECK(one.liveness() == worker_liveness::dead);
  CHECK(round.memberships.are_all_ended_or_unreachable());
}

TEST_CASE("success is final, and counted once") {
  two_members round;
  round.memberships.succeed(*round.first);
  round.memberships.succeed(*round.first);
  round.memberships.mark_ended(*round.first);
  CHECK(round.first->has_succeeded());
  CHECK(round.memberships.succeeded() == 1);
}
