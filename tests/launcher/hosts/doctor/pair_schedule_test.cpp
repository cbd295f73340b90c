#include "launcher/hosts/doctor/pair_schedule.hpp"

#include "tests/support/catch.hpp"

#include <set>
#include <utility>

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
