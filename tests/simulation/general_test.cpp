// Random faults at random moments: the family that finds what nobody thought of. Its default is the
// 10,000 schedules of the suite; DDPRUN_SIMULATION_SCHEDULES=1000000 is the long run.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>

namespace ddprun::simulation {

TEST_CASE("random faults") {
  const std::uint64_t count = number_from("DDPRUN_SIMULATION_SCHEDULES", schedules_default);
  const std::uint64_t first = number_from("DDPRUN_SIMULATION_FIRST", 0);
  const bool scaled_down = count < schedules_default;
  const auto failed =
      play_family("random faults", scaled_down ? schedules_default : count,
                  [&](std::uint64_t seed) { return random_schedule(first + seed); });
  REQUIRE(failed == "");
}

}  // namespace ddprun::simulation
