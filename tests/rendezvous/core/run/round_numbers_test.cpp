// The numbers of rounds, alone.
#include "rendezvous/core/run/round_numbers.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::core;

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
