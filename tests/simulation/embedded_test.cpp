// The daemon in an agent's process: they end as one and stand still as one, and whoever is started
// next on that host brings a daemon that knows nothing.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

// Random faults on agents of which the first hosts the daemon. Its host is hit as often as all
// others together.
schedule embedded(std::uint64_t seed) {
  schedule made = random_schedule(seed);
  made.embedded = made.options.embeds = true;
  // Its own daemon refuses an agent that is one too many, and is gone with it.
  made.options.settings.spares_max += 8;
  random_source random = random_source(seed).fork(21);
  for (fault& each : made.faults)
    if (random.chance(50)) each.host = 1;
  return made;
}

// A daemon of its own on the first agent's host: while it is dead, an agent that starts there
// brings one.
schedule beside_an_agent(std::uint64_t seed) {
  schedule made = random_schedule(seed);
  made.options.embeds = true;
  made.daemon_on_first_host = true;
  random_source random = random_source(seed).fork(22);
  for (fault& each : made.faults) {
    if (random.chance(40)) each.host = 1;
    if (random.chance(20)) each.kind = fault_kind::kill_daemon;
  }
  return made;
}

schedule with_journal(schedule made) {
  made.options.strict.journal = true;
  return made;
}

}  // namespace

TEST_CASE("random faults round an embedded daemon") {
  REQUIRE(play_family("random faults round an embedded daemon", 2000, embedded) == "");
}

TEST_CASE("random faults beside a daemon that an agent may replace") {
  REQUIRE(play_family("random faults beside a daemon that an agent may replace", 2000,
                      beside_an_agent) == "");
}

// What an empty daemon cannot know, as nobody has told it. A journal closes these.
TEST_CASE("known: instances round an embedded daemon", "[.known]") {
  REQUIRE(play_family("known: instances round an embedded daemon", 10'000,
                      [](std::uint64_t seed) { return with_journal(embedded(seed)); }) == "");
}

TEST_CASE("known: instances beside a daemon that an agent may replace", "[.known]") {
  REQUIRE(play_family("known: instances beside a daemon that an agent may replace", 10'000,
                      [](std::uint64_t seed) { return with_journal(beside_an_agent(seed)); }) ==
          "");
}

TEST_CASE("known: instances under random faults", "[.known]") {
  REQUIRE(play_family("known: instances under random faults", 10'000, [](std::uint64_t seed) {
            return with_journal(random_schedule(seed));
          }) == "");
}

}  // namespace ddprun::simulation
