// Two daemons are alive at once: the endpoint's name moves to a new one while the old one can reach
// no agent, or stands still.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t nodes_in_all = 3;

// The old daemon is cut off for longer than any agent waits for its acks. If it dies, it does so
// before it is back, so no agent depends on it then.
schedule replaced(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, nodes_in_all);
  random_source random = random_source(seed).fork(31);
  run_settings& settings = made.options.settings;
  settings.nodes_min = static_cast<std::uint32_t>(1 + random.below(nodes_in_all));
  settings.spares_max = 1;
  fault move;
  move.kind = fault_kind::move_daemon;
  move.at = 1500ms + random.between(0ms, 2s);
  move.host = static_cast<std::uint32_t>(1 + random.below(nodes_in_all));
  move.length = settings.timing.node_timeout * 2 + random.between(0ms, 15s);
  move.value = static_cast<int>(random.below(2));
  made.faults.push_back(move);
  const fault_kind others[] = {fault_kind::fail_worker, fault_kind::kill_agent, fault_kind::join,
                               fault_kind::break_tether, fault_kind::stall_start};
  for (std::uint64_t count = random.below(4); count > 0; --count) {
    fault other;
    other.kind = others[random.below(std::size(others))];
    other.at = random.between(1s, move.at + move.length);
    other.host = static_cast<std::uint32_t>(1 + random.below(nodes_in_all));
    other.length = random.between(100ms, 6s);
    made.faults.push_back(other);
  }
  made.heal_at = move.at + move.length + random.between(0ms, 3s);
  return made;
}

// Each of the two keeps some of the agents, so both renew leases, and both may start rounds.
schedule divided(std::uint64_t seed) {
  schedule made = replaced(seed);
  random_source random = random_source(seed).fork(32);
  made.faults.front().value = 2;
  for (std::uint32_t host = 1; host <= nodes_in_all; ++host) {
    if (random.chance(50)) continue;
    fault away;
    away.kind = fault_kind::break_daemon_connection;
    away.at = made.faults.front().at + random.between(1ms, 5s);
    away.host = host;
    made.faults.push_back(away);
  }
  return made;
}

}  // namespace

TEST_CASE("a daemon is replaced on another host while the old one lives") {
  REQUIRE(play_family("a daemon is replaced on another host while the old one lives", 1000,
                      replaced) == "");
}

// Two daemons that each reach some of the agents know nothing of each other. Only epochs that are
// given out centrally could prevent that.
TEST_CASE("known: agents are divided between two daemons", "[.known]") {
  REQUIRE(play_family("known: agents are divided between two daemons", 1000, divided) == "");
}

}  // namespace ddprun::simulation
