// Mutants of the budget that --restart-window refills, like those in mutant_test.cpp.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::StartsWith;

// A worker fails every three seconds; each failure needs a second restart, but only one is allowed.
schedule failing(std::uint64_t seed, duration window) {
  schedule made = quiet_schedule(seed, 3);
  made.options.settings.restarts_max = 1;
  made.options.settings.timing.restart_window = window;
  for (int index = 0; index < 4; ++index)
    made.faults.push_back(fault_of(fault_kind::fail_worker, 2s + index * 3s, 1));
  made.heal_at = 15s;
  return made;
}

schedule too_often(std::uint64_t seed) {
  return failing(seed, 20s);
}

schedule seldom(std::uint64_t seed) {
  return failing(seed, 1s);
}

// Like too_often, but all die after the first restart, and are started again.
schedule too_often_with_end(std::uint64_t seed) {
  schedule made = with_journal(failing(seed, 20s), journal_kind::kept);
  made.faults.resize(1);
  made.faults.push_back(fault_of(fault_kind::kill_all, 5s, 0, 500ms));
  for (int index = 0; index < 3; ++index)
    made.faults.push_back(fault_of(fault_kind::fail_worker, 18s + index * 3s, 1));
  made.heal_at = 30s;
  return made;
}

// Changes messages of agents on their way to the daemon.
mutant with_settings(std::function<void(run_settings&)> change) {
  mutant made;
  made.daemon_event = [change](daemon&, core::daemon_event& event) {
    auto* const said = std::get_if<core::agent_said>(&event);
    auto* const greeting = said == nullptr ? nullptr : std::get_if<hello>(&said->message);
    if (greeting != nullptr) change(greeting->settings);
    return true;
  };
  return made;
}

mutant with_forgiven(std::function<std::uint32_t(std::uint32_t)> of_used) {
  mutant made;
  made.daemon_effects = [of_used](daemon&, const core::daemon_event&,
                                  core::daemon_effects& effects) {
    for (auto& effect : effects) {
      auto* const asked = std::get_if<core::persist_run_record>(&effect);
      if (asked == nullptr || !asked->record) continue;
      asked->record->restarts_forgiven = of_used(asked->record->restarts_used);
    }
  };
  return made;
}

}  // namespace

TEST_CASE("mutant: the budget is refilled too early") {
  const mutant hasty = with_settings([](run_settings& said) { said.timing.restart_window = 1s; });
  REQUIRE_THAT(caught(hasty, 5, too_often), StartsWith("budget:"));
  REQUIRE(caught({}, 5, too_often) == "nothing");
}

TEST_CASE("mutant: more restarts are made than are allowed") {
  const mutant generous = with_settings([](run_settings& said) { said.restarts_max = 9; });
  REQUIRE_THAT(caught(generous, 5, too_often), StartsWith("budget:"));
}

TEST_CASE("mutant: a record says that all restarts are forgiven") {
  const mutant forgiving = with_forgiven([](std::uint32_t used) { return used; });
  REQUIRE_THAT(caught(forgiving, 10, too_often_with_end), StartsWith("budget:"));
  REQUIRE(caught({}, 10, too_often_with_end) == "nothing");
}

// What the checker allows does happen: each failure is the first since the budget was refilled.
TEST_CASE("a run whose rounds last for restart_window goes on, also over the death of all") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const outcome calm = play(seldom(seed));
    REQUIRE(calm.violation == "");
    REQUIRE(calm.rounds == 5);
    schedule end = too_often_with_end(seed);
    end.options.settings.timing.restart_window = 1s;
    const outcome ended = play(end);
    REQUIRE(ended.violation == "");
    REQUIRE(ended.rounds == 6);
  }
}

}  // namespace ddprun::simulation
