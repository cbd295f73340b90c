// Workers that may live of older instances, alone.
#include "rendezvous/core/run/stale_workers.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/origin.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::machine_origin;
using ddprun::tests::origin;

TEST_CASE("a node that ends its workers is waited for from when it was told first") {
  stale_workers older;
  CHECK(older.add_ending(3, machine_origin));
  CHECK_FALSE(older.add_ending(3, machine_origin + 5s));
  REQUIRE(older.ending().size() == 1);
  CHECK(older.ending().at(3) == machine_origin);
  CHECK(older.drop_ending(3));
  CHECK_FALSE(older.drop_ending(3));
  CHECK(older.ending().empty());
}

TEST_CASE("of nodes that have gone the one that lives longest counts") {
  stale_workers older;
  CHECK(older.lost_until() == time_point{});
  older.raise_lost_until(origin + 9s);
  older.raise_lost_until(origin + 4s);
  CHECK(older.lost_until() == origin + 9s);
  older.drop_lost();
  CHECK(older.lost_until() == time_point{});
}
