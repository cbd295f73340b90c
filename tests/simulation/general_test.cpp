// Random faults at random moments: the family that finds what nobody has thought of. It has the
// 10,000 schedules of the suite; DDPRUN_SIMULATION_SCHEDULES=1000000 is the long run, and
// DDPRUN_SIMULATION_FIRST says where it begins.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>

namespace ddprun::simulation {

TEST_CASE("random faults") {
  const std::uint64_t count = std::max(schedules_wanted(), schedules_default);
  REQUIRE(play_family("random faults", count, random_schedule) == "");
}

}  // namespace ddprun::simulation
