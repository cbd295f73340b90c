// Tethers break, then the daemon loses contact with a member, dies and comes back, in any order.
// The age of its tethers that a member reports must not end the wait for one that still has a
// lease.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::StartsWith;

constexpr std::uint32_t tether_nodes = 3;

// The tethers of up to two hosts may break, and later the daemon loses these hosts, at once or
// because they are silent. A daemon that does not wait for their leases starts another round beside
// them.
schedule with_broken_tethers(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, tether_nodes);
  random_source random = random_source(seed).fork(7);
  made.options.settings.nodes_min = 1;
  made.options.settings.spares_max = 1;
  timers& timing = made.options.settings.timing;
  timing.settle = timing.settle_max = 1ms;
  timing.reconnect_grace = 200ms;
  timing.stop_grace = 500ms;
  if (random.chance(50)) timing.recovery_window = 0ms;
  const auto cut = [&made](std::uint32_t host, std::uint32_t other, moment from, duration length) {
    part(made, host, other, from, length);
    made.heal_at = std::max(made.heal_at, moment(from + length));
  };
  // The daemon is on host 0, the leader on one of the others.
  const auto kept = static_cast<std::uint32_t>(1 + random.below(tether_nodes));
  const moment broken = 2s + random.between(0ms, 1s);
  const moment gone = broken + random.between(0ms, 2 * timing.isolation_limit);
  for (std::uint32_t host = 1; host <= tether_nodes; ++host) {
    if (host == kept || random.chance(25)) continue;
    for (std::uint32_t other = 1; other <= tether_nodes; ++other) {
      if (other != host && random.chance(40)) cut(host, other, broken, 40s);
    }
    cut(0, host, gone, random.chance(50) ? 30s : random.between(1s, 20s));
    if (random.chance(60))
      made.faults.push_back(fault_of(fault_kind::break_daemon_connection, gone, host));
  }
  if (random.chance(50)) {
    const moment dies = gone + random.between(0ms, 2s);
    const duration back = random.chance(50) ? 1ms : random.between(1ms, 3s);
    made.faults.push_back(fault_of(fault_kind::kill_daemon, dies, 0, back));
  }
  if (random.chance(50)) {
    const moment fails = gone + random.between(0ms, 4s);
    made.faults.push_back(fault_of(fault_kind::fail_worker, fails, kept));
  }
  return made;
}

}  // namespace

TEST_CASE("tethers break before the daemon loses a member and dies") {
  const auto failed = play_family("tethers break before the daemon loses a member and dies", 2000,
                                  with_broken_tethers);
  REQUIRE(failed == "");
}

TEST_CASE("mutant: members say that their tethers broke long ago, and they have not") {
  mutant liar;
  liar.agent_effects = [](agent&, const core::agent_event&, core::agent_effects& effects) {
    for (core::agent_effect& effect : effects) {
      auto* const sent = std::get_if<core::send_to_daemon>(&effect);
      auto* const said = sent != nullptr ? std::get_if<status>(&sent->message) : nullptr;
      if (said == nullptr || said->round == 0 || said->phase == member_phase::joined) continue;
      said->tether_ages.clear();
      for (std::uint32_t group_rank = 0; group_rank < tether_nodes; ++group_rank)
        said->tether_ages.push_back({group_rank, 30s});
    }
  };
  REQUIRE_THAT(caught(liar, 200, with_broken_tethers), StartsWith("overlap:"));
}

}  // namespace ddprun::simulation
