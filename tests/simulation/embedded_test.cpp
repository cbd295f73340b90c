// The daemon in an agent's process: they end as one and stand still as one, and whoever is started
// next on that host brings a daemon that knows nothing. With a journal: journal_test.cpp.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ddprun::simulation {
TEST_CASE("random faults round an embedded daemon") {
  REQUIRE(play_family("random faults round an embedded daemon", 2000, embedded_schedule) == "");
}

TEST_CASE("random faults beside a daemon that an agent may replace") {
  REQUIRE(play_family("random faults beside a daemon that an agent may replace", 2000,
                      beside_an_agent) == "");
}

}  // namespace ddprun::simulation
