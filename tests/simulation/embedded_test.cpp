// The daemon lives in an agent's process: they end together and stand still together, and the agent
// that is started next on that host opens a daemon that knows nothing. journal_test.cpp has the
// same with a journal.
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
