// A fixed number of nodes, each with a node rank from its command line that is its group rank
// (rank_policy exact), also with the daemon in the process of rank 0: torchrun's static rendezvous.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <variant>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::StartsWith;

schedule exact(schedule made) {
  run_settings& settings = made.options.settings;
  settings.ranks = rank_policy::exact;
  settings.nodes_min = settings.nodes_max;
  return made;
}

// The node with rank 0 dies and comes back; no survivor may take its rank.
schedule leader_returns(std::uint64_t seed) {
  schedule made = exact(quiet_schedule(seed, 3));
  made.faults.push_back(fault_of(fault_kind::kill_agent, 2s, 1, 3s));
  made.faults.push_back(fault_of(fault_kind::join, 6s, 0));
  made.heal_at = 8s;
  return made;
}

}  // namespace

TEST_CASE("random faults where node ranks are exact") {
  REQUIRE(play_family("random faults where node ranks are exact", 2000,
                      [](std::uint64_t seed) { return exact(random_schedule(seed)); }) == "");
}

TEST_CASE("random faults where node ranks are exact and the first node has the daemon") {
  REQUIRE(play_family("random faults where node ranks are exact and the first node has the daemon",
                      2000,
                      [](std::uint64_t seed) { return exact(embedded_schedule(seed)); }) == "");
}

TEST_CASE("mutant: the daemon takes an exact rank for a hint") {
  mutant wishful;
  wishful.daemon_event = [](daemon&, core::daemon_event& event) {
    auto* const said = std::get_if<core::agent_said>(&event);
    auto* const greeting = said == nullptr ? nullptr : std::get_if<hello>(&said->message);
    if (greeting != nullptr) greeting->settings.ranks = rank_policy::hint;
    return true;
  };
  REQUIRE_THAT(caught(wishful, 10, leader_returns), StartsWith("ranks:"));
  REQUIRE(caught({}, 10, leader_returns) == "nothing");
}

}  // namespace ddprun::simulation
