// `round_memberships` without a run: which nodes hold them, and how many have which liveness.
#include "rendezvous/core/run/nodes.hpp"
#include "rendezvous/core/run/round.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::core;

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

TEST_CASE("a membership may be dead whose holder nobody knows") {
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
