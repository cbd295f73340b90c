// All orders of six events at the end of a run: a node succeeds, a worker fails, a node is lost,
// one drains, SIGTERM goes to all, and the connections that carry the close break.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace ddprun::simulation {

using namespace std::chrono_literals;

TEST_CASE("all orders of succeed and fail and lost and drain and SIGTERM to all and close lost") {
  constexpr std::uint64_t orders = 720;
  const auto failed = play_family(
      "all orders of succeed and fail and lost and drain and SIGTERM to all and close lost",
      orders * 4, [](std::uint64_t seed) {
        schedule made = quiet_schedule(seed, 4);
        made.options.settings.nodes_min = static_cast<std::uint32_t>(1 + seed % 4);
        made.options.settings.restarts_max = static_cast<std::uint32_t>(seed / 4 % 3);
        random_source random = random_source(seed).fork(9);
        std::array<fault_kind, 6> order = {fault_kind::succeed_node, fault_kind::fail_worker,
                                           fault_kind::lose_power,   fault_kind::signal_agent,
                                           fault_kind::signal_all,   fault_kind::break_all};
        std::sort(order.begin(), order.end());
        for (std::uint64_t index = 0; index < seed % orders; ++index)
          std::next_permutation(order.begin(), order.end());
        const duration gaps[] = {1ms, 30ms, 400ms, 3s};
        moment at = 1500ms;
        for (const fault_kind kind : order) {
          fault next;
          next.kind = kind;
          next.at = at;
          next.host = static_cast<std::uint32_t>(1 + random.below(4));
          next.value = 15;
          made.faults.push_back(next);
          at += gaps[seed / orders % 4] + random.between(0ms, 20ms);
        }
        made.heal_at = at;
        return made;
      });
  REQUIRE(failed == "");
}

}  // namespace ddprun::simulation
