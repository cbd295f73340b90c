#include "launcher/hosts/doctor/pair_schedule.hpp"

#include "tests/support/catch.hpp"

#include <set>
#include <utility>
#include <vector>

using namespace ddprun::launcher::doctor;

TEST_CASE("each turns to all others, and none to the same at once") {
  for (std::uint32_t nodes = 1; nodes <= 9; ++nodes) {
    for (std::uint32_t step = 0; step + 1 < nodes; ++step) {
      std::set<std::uint32_t> asked;
      for (std::uint32_t own = 0; own < nodes; ++own) {
        const auto order = order_of_others(own, nodes);
        REQUIRE(order.size() == nodes - 1);
        CHECK(order[step] != own);
        asked.insert(order[step]);
      }
      CHECK(asked.size() == nodes);
    }
  }
}

TEST_CASE("of many nodes each tries few, and is tried by as many") {
  for (const std::uint32_t nodes : {129u, 200u, 256u}) {
    std::vector<std::set<std::uint32_t>> tried_by(nodes);
    const std::size_t few = 8;
    for (std::uint32_t own = 0; own < nodes; ++own) {
      const auto others = order_of_others(own, nodes);
      CHECK(others.size() == few);
      for (const std::uint32_t other : others) {
        REQUIRE(other < nodes);
        CHECK(other != own);
        tried_by[other].insert(own);
      }
    }
    for (const auto& of_one : tried_by)
      CHECK(of_one.size() == few);
  }
  CHECK(order_of_others(0, all_pairs_max).size() == all_pairs_max - 1);
}

TEST_CASE("of many nodes a tournament has few steps, and each meets another in each") {
  CHECK(tournament_steps(200) == 8);
  for (std::uint32_t step = 0; step < 8; ++step) {
    for (std::uint32_t own = 0; own < 200; ++own) {
      const auto partner = tournament_partner(own, step, 200);
      REQUIRE(partner);
      CHECK(*partner != own);
      CHECK(tournament_partner(*partner, step, 200) == own);
    }
  }
}

TEST_CASE("any two halves of many nodes, in their order, try each other both ways") {
  const std::uint32_t nodes = 200;
  std::set<bool> directions;
  for (std::uint32_t own = 0; own < nodes; ++own) {
    for (const std::uint32_t other : order_of_others(own, nodes)) {
      if ((own < nodes / 2) != (other < nodes / 2)) directions.insert(own < other);
    }
  }
  CHECK(directions.size() == 2);
}

TEST_CASE("a tournament: each pair meets once, and each node one other at a time") {
  for (std::uint32_t nodes = 0; nodes <= 33; ++nodes) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> met;
    for (std::uint32_t step = 0; step < tournament_steps(nodes); ++step) {
      for (std::uint32_t own = 0; own < nodes; ++own) {
        const auto partner = tournament_partner(own, step, nodes);
        if (!partner) continue;
        REQUIRE(*partner < nodes);
        REQUIRE(*partner != own);
        CHECK(tournament_partner(*partner, step, nodes) == own);
        CHECK(met.insert({own, *partner}).second);
      }
    }
    CHECK(met.size() == std::size_t{nodes} * (nodes == 0 ? 0 : nodes - 1));
    CHECK(tournament_steps(nodes) <= nodes);
  }
}
