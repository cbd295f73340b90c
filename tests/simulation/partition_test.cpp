// Every way in which the network can be partitioned between the daemon, three members (one of them
// the leader) and a spare, for times around the fencing timers, and every single direction that can
// go silent.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <vector>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t hosts = 5;

// All set partitions, each as four bits per host.
void partitions_from(std::uint32_t host, std::uint64_t island_next, std::uint64_t mask,
                     std::vector<std::uint64_t>& found) {
  if (host == hosts) {
    found.push_back(mask);
    return;
  }
  for (std::uint64_t island = 0; island <= island_next; ++island) {
    partitions_from(host + 1, std::max(island_next, island + 1), mask | island << (4 * host),
                    found);
  }
}

schedule with_a_spare(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, hosts - 1);
  made.options.settings.nodes_max = hosts - 2;
  made.options.settings.nodes_min = static_cast<std::uint32_t>(1 + seed % (hosts - 2));
  made.options.settings.spares_max = 1;
  return made;
}

constexpr duration lengths[] = {500ms, 1500ms, 2900ms, 3300ms, 4500ms, 5300ms, 8300ms, 15s, 30s};

}  // namespace

TEST_CASE("every partition of daemon and leader and members and spare") {
  std::vector<std::uint64_t> partitions;
  partitions_from(0, 0, 0, partitions);
  REQUIRE(partitions.size() == 52);
  const std::uint64_t count = partitions.size() * std::size(lengths) * 3;
  const auto failed = play_family(
      "every partition of daemon and leader and members and spare", count, [&](std::uint64_t seed) {
        schedule made = with_a_spare(seed);
        fault cut;
        cut.at = 2500ms;
        cut.kind = fault_kind::islands;
        cut.mask = partitions[seed % partitions.size()];
        cut.length = lengths[seed / partitions.size() % std::size(lengths)];
        made.faults.push_back(cut);
        made.heal_at = cut.at + cut.length;
        return made;
      });
  REQUIRE(failed == "");
}

TEST_CASE("two partitions one after the other") {
  std::vector<std::uint64_t> partitions;
  partitions_from(0, 0, 0, partitions);
  const std::uint64_t count = partitions.size() * partitions.size() / 4;
  const auto failed =
      play_family("two partitions one after the other", count, [&](std::uint64_t seed) {
        schedule made = with_a_spare(seed);
        fault first;
        first.at = 2500ms;
        first.kind = fault_kind::islands;
        first.mask = partitions[seed * 4 % partitions.size()];
        first.length = lengths[seed % std::size(lengths)];
        fault second = first;
        second.at = first.at + first.length + 10ms;
        second.mask = partitions[seed * 4 / partitions.size() % partitions.size()];
        second.length = lengths[seed / 7 % std::size(lengths)];
        made.faults = {first, second};
        made.heal_at = second.at + second.length;
        return made;
      });
  REQUIRE(failed == "");
}

TEST_CASE("every single direction goes silent") {
  const std::uint64_t count = hosts * hosts * std::size(lengths) * 2;
  const auto failed =
      play_family("every single direction goes silent", count, [&](std::uint64_t seed) {
        schedule made = with_a_spare(seed);
        fault cut;
        cut.at = 2500ms;
        cut.kind = fault_kind::silence;
        cut.host = static_cast<std::uint32_t>(seed % hosts);
        cut.other = static_cast<std::uint32_t>(seed / hosts % hosts);
        cut.length = lengths[seed / hosts / hosts % std::size(lengths)];
        made.faults.push_back(cut);
        made.heal_at = cut.at + cut.length;
        return made;
      });
  REQUIRE(failed == "");
}

}  // namespace ddprun::simulation
