// More mutants, as mutant_test.cpp: those of the checkers that look across instances, daemons,
// clocks that stood still, success and calm.
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

// An agent that keeps its workers, whatever its machine says, once `when` holds.
mutant keeps_workers(std::function<bool(const agent&)> when) {
  mutant made;
  made.agent_effects = [when](agent& by, const core::agent_event&, core::agent_effects& effects) {
    std::erase_if(effects, [&](const auto& effect) {
      return when(by) && (std::holds_alternative<core::kill_workers>(effect) ||
                          std::holds_alternative<core::stop_workers>(effect));
    });
  };
  return made;
}

}  // namespace

TEST_CASE("mutant: one member starts in an instance of its own") {
  mutant wrong;
  wrong.agent_effects = [](agent&, const core::agent_event&, core::agent_effects& effects) {
    for (auto& effect : effects) {
      auto* const start = std::get_if<core::start_workers>(&effect);
      if (start != nullptr && start->assignment.group_rank == 1) start->instance += 1;
    }
  };
  const auto quiet = [](std::uint64_t seed) { return quiet_schedule(seed, 3); };
  REQUIRE_THAT(caught(wrong, 30, quiet), StartsWith("overlap:"));
}

TEST_CASE("mutant: a node without a daemon runs on for ever") {
  const auto alone = [](std::uint64_t seed) {
    schedule made = quiet_schedule(seed, 1);
    made.options.settings.nodes_max = 2;
    made.faults.push_back(fault_of(fault_kind::join, 2s, 0));
    made.faults.push_back(fault_of(fault_kind::isolate_host, 4s, 1, 40s));
    made.heal_at = 45s;
    return made;
  };
  REQUIRE_THAT(caught(keeps_workers([](const agent& by) { return !by.connected(); }), 10, alone),
               StartsWith("overlap:"));
  REQUIRE(caught({}, 10, alone) == "nothing");
}

TEST_CASE("mutant: a node that stood still takes a whole isolation limit to notice") {
  const auto frozen = [](std::uint64_t seed) {
    schedule made = quiet_schedule(seed, 3);
    made.options.settings.nodes_min = 1;
    const auto host = static_cast<std::uint32_t>(1 + seed % 3);
    made.faults.push_back(fault_of(fault_kind::isolate_host, 1500ms, host, 40s));
    made.faults.push_back(fault_of(fault_kind::freeze_host, 1600ms, host, 15s));
    made.heal_at = 42s;
    return made;
  };
  const auto just_back = [](const agent& by) { return by.went_on_at().has_value(); };
  REQUIRE_THAT(caught(keeps_workers(just_back), 10, frozen), StartsWith("overlap:"));
  REQUIRE(caught({}, 10, frozen) == "nothing");
}

TEST_CASE("mutant: a guardian leaves the workers of an agent that is stopped") {
  const auto stopped = [](std::uint64_t seed) {
    schedule made = quiet_schedule(seed, 3);
    made.options.settings.nodes_min = 1;
    const auto host = static_cast<std::uint32_t>(1 + seed % 3);
    made.faults.push_back(fault_of(fault_kind::stop_agent, 1500ms, host, 40s));
    made.heal_at = 42s;
    return made;
  };
  mutant sleeping;
  sleeping.guardian_sleeps = true;
  REQUIRE_THAT(caught(sleeping, 3, stopped), StartsWith("overlap:"));
  REQUIRE(caught({}, 30, stopped) == "nothing");
}

TEST_CASE("mutant: a daemon does not hear of success") {
  mutant hard_of_hearing;
  hard_of_hearing.daemon_event = [](daemon& by, core::daemon_event& event) {
    const auto* const said = std::get_if<core::agent_said>(&event);
    const auto* const news = said == nullptr ? nullptr : std::get_if<status>(&said->message);
    if (news == nullptr || news->phase != member_phase::succeeded) return true;
    const auto members = by.run()->view({}).members;
    const auto done = std::count_if(members.begin(), members.end(), [](const auto& each) {
      return each.phase == member_phase::succeeded;
    });
    if (done == 2) event = guardians_word(by, said->connection);
    return true;
  };
  const auto quiet = [](std::uint64_t seed) {
    schedule made = quiet_schedule(seed, 3);
    made.options.settings.nodes_min = 1;
    return made;
  };
  REQUIRE_THAT(caught(hard_of_hearing, 10, quiet), StartsWith("success:"));
}

TEST_CASE("mutant: an agent leaves a run that succeeded with a code of its own") {
  mutant odd;
  odd.agent_effects = [](agent& by, const core::agent_event&, core::agent_effects& effects) {
    for (auto& effect : effects) {
      auto* const last = std::get_if<core::leave>(&effect);
      if (last != nullptr && by.index == 1) last->exit_code = 143;
    }
  };
  const auto quiet = [](std::uint64_t seed) { return quiet_schedule(seed, 3); };
  REQUIRE_THAT(caught(odd, 3, quiet), StartsWith("success:"));
}

TEST_CASE("mutant: an agent takes its workers down for no reason") {
  mutant nervous;
  nervous.agent_effects = [](agent& by, const core::agent_event&, core::agent_effects& effects) {
    if (by.index == 1 && by.group && by.group->round == 1 && by.group->all_executed &&
        by.local_now() - by.where().clock.read(by.group->started) > 120s)
      effects.push_back(core::kill_workers{1});
  };
  const auto calm = [](std::uint64_t seed) {
    schedule made = quiet_schedule(seed, 3);
    made.calm = 150s;
    return made;
  };
  REQUIRE_THAT(caught(nervous, 3, calm), StartsWith("progress:"));
  REQUIRE(caught({}, 3, calm) == "nothing");
}

// No node died, so there is none to wait for until orphan_limit.
TEST_CASE("mutant: no round is assigned for a minute") {
  mutant slow;
  slow.daemon_effects = [](daemon& by, const core::daemon_event&, core::daemon_effects& effects) {
    if (by.local_now() > by.where().clock.read(60s)) return;
    std::erase_if(effects, [](const auto& effect) {
      const auto* const sent = std::get_if<core::send_to_agent>(&effect);
      if (sent == nullptr) return false;
      const auto* const order = std::get_if<desired>(sent->message.get());
      return order != nullptr && order->phase == desired_phase::prepare;
    });
  };
  const auto quiet = [](std::uint64_t seed) { return quiet_schedule(seed, 3); };
  REQUIRE_THAT(caught(slow, 3, quiet), StartsWith("liveness:"));
}

}  // namespace ddprun::simulation
