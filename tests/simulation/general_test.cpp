// Random faults at random moments: the family that finds what nobody thought of. Its default is the
// 10,000 schedules of the suite; DDPRUN_SIMULATION_SCHEDULES=1000000 is the long run,
// DDPRUN_SIMULATION_FIRST where it begins.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>

namespace ddprun::simulation {

TEST_CASE("random faults") {
  const std::uint64_t count = number_from("DDPRUN_SIMULATION_SCHEDULES", schedules_default);
  const bool scaled_down = count < schedules_default;
  REQUIRE(play_family("random faults", scaled_down ? schedules_default : count, random_schedule) ==
          "");
}

}  // namespace ddprun::simulation
