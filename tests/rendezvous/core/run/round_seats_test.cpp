// The seats of a round alone: who holds them, and the counts of what became of them.
#include "rendezvous/core/run/round_seats.hpp"

#include "rendezvous/core/run/node.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::core;

namespace {

// A round of two whose holders were told to run.
struct two_seats {
  node leader;
  node other;
  round_seats seats;
  seat* first = nullptr;
  seat* second = nullptr;

  two_seats() {
    seats.open(2);
    first = &seats.take(0, leader);
    second = &seats.take(1, other);
    seats.command(*first, command::run);
    seats.command(*second, command::run);
  }
};

}  // namespace

TEST_CASE("a seat may be dead whose holder nobody knows") {
  round_seats seats;
  seats.open(2);
  seats.mark_dead(*seats.begin());
  CHECK(seats.unknown() == 1);
  CHECK(seats.unreachable() == 1);
  CHECK_FALSE(seats.is_free(0));
  CHECK(seats.is_free(1));
  CHECK(seats.are_all_ended_or_unreachable());
}

TEST_CASE("a seat is unreachable until its holder is known") {
  node who;
  round_seats seats;
  seats.open(2);
  CHECK(seats.unknown() == 2);
  CHECK(seats.unreachable() == 2);
  CHECK(seats.are_all_ended_or_unreachable());

  const seat& taken = seats.take(1, who, 4);
  CHECK(who.seat == &taken);
  CHECK(who.last_slot == 1U);
  CHECK(taken.rank_first() == 4);
  CHECK(taken.fate() == fate::in_reach);
  CHECK(seats.unknown() == 1);
  CHECK_FALSE(seats.are_all_ended_or_unreachable());

  seats.grow(4);
  CHECK(who.seat == &taken);
  CHECK(seats.unknown() == 3);
  CHECK(seats.is_free(3));
}

TEST_CASE("who leaves a round leaves nothing behind in the next") {
  two_seats round;
  round.seats.advance(*round.first, member_phase::running);
  round.seats.succeed(*round.first);
  round.seats.mark_dead(*round.second);
  round.seats.acknowledge(*round.second);
  round.seats.start_until(machine_time{} + std::chrono::seconds(1));
  round.seats.clear();
  CHECK(round.leader.seat == nullptr);
  CHECK(round.leader.last_slot == 0U);

  round.seats.open(1);
  const seat& fresh = round.seats.take(0, round.other);
  CHECK(fresh.command() == command::none);
  CHECK(fresh.phase() == member_phase::joined);
  CHECK_FALSE(fresh.has_ended());
  CHECK_FALSE(fresh.has_acknowledged());
  CHECK(round.seats.running() == 0);
  CHECK(round.seats.succeeded() == 0);
  CHECK_FALSE(round.seats.start_deadline());
}

TEST_CASE("the start is over when the last seat runs") {
  two_seats round;
  const machine_time due = machine_time{} + std::chrono::seconds(60);
  round.seats.start_until(due);
  CHECK_FALSE(round.seats.advance(*round.first, member_phase::running));
  CHECK_FALSE(round.seats.advance(*round.first, member_phase::succeeded));
  CHECK(round.seats.running() == 1);
  CHECK(round.seats.start_deadline() == due);

  CHECK_FALSE(round.seats.advance(*round.second, member_phase::starting));
  CHECK(round.seats.advance(*round.second, member_phase::running));
  CHECK(round.seats.running() == 2);
  CHECK_FALSE(round.seats.start_deadline());
}

TEST_CASE("a seat has one fate, and is counted once") {
  two_seats round;
  seat& one = *round.second;
  round.seats.mark_unreachable(one);
  round.seats.mark_unreachable(one);
  CHECK(round.seats.unreachable() == 1);
  CHECK(one.phase() == member_phase::lost);

  CHECK(round.seats.mark_reached(one));
  CHECK_FALSE(round.seats.mark_reached(one));
  CHECK(round.seats.unreachable() == 0);
  CHECK(one.phase() == member_phase::stopping);

  round.seats.mark_unreachable(one);
  round.seats.mark_ended(one);
  CHECK(round.seats.unreachable() == 0);
  CHECK(one.phase() == member_phase::stopped);
  CHECK_FALSE(round.seats.are_all_ended_or_unreachable());

  round.seats.mark_ended(*round.first);
  CHECK(round.seats.are_all_ended_or_unreachable());
  round.seats.mark_dead(one);
  round.seats.mark_ended(one);
  CHECK(one.fate() == fate::dead);
  CHECK(round.seats.are_all_ended_or_unreachable());
}

TEST_CASE("success is final, and counted once") {
  two_seats round;
  round.seats.succeed(*round.first);
  round.seats.succeed(*round.first);
  round.seats.mark_ended(*round.first);
  CHECK(round.first->has_succeeded());
  CHECK(round.seats.succeeded() == 1);
}

TEST_CASE("a member acknowledges a stop once") {
  two_seats round;
  CHECK(round.seats.acknowledge(*round.first));
  CHECK_FALSE(round.seats.acknowledge(*round.first));
}
