// Nodes whose check finds something between rounds (rendezvous/DESIGN.md, rule 14), and the mutant
// that its checker catches.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::StartsWith;

// Two of four nodes are enough, and at each failure some of them may be found unhealthy.
schedule some_are_ill(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 4);
  made.options.settings.nodes_min = 2;
  made.options.health.are_checked = true;
  made.options.health.ill_percent = 50;
  for (int index = 0; index < 6; ++index)
    made.faults.push_back(fault_of(fault_kind::fail_worker, 2s + index * 5s, 1 + index % 2));
  made.heal_at = 35s;
  return made;
}

// All nodes are needed, whatever their checks say.
schedule all_are_needed(std::uint64_t seed) {
  schedule made = some_are_ill(seed);
  made.options.settings.nodes_min = 4;
  made.options.health.ill_percent = 100;
  return made;
}

}  // namespace

TEST_CASE("unhealthy nodes sit out while others are enough") {
  REQUIRE(play_family("nodes that are ill sit out while others are enough", 200, some_are_ill) ==
          "");
}

TEST_CASE("unhealthy nodes take part if all are needed") {
  REQUIRE(play_family("nodes that are ill take part where all are needed", 50, all_are_needed) ==
          "");
}

TEST_CASE("mutant: no daemon hears that a node is unhealthy") {
  mutant deaf;
  deaf.daemon_event = [](daemon&, core::daemon_event& event) {
    auto* const said = std::get_if<core::agent_said>(&event);
    if (said == nullptr) return true;
    if (auto* const news = std::get_if<status>(&said->message)) news->unhealthy.clear();
    return true;
  };
  REQUIRE_THAT(caught(deaf, 20, some_are_ill), StartsWith("health:"));
}

}  // namespace ddprun::simulation
