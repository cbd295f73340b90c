// Each mutant breaks one rule by changing what goes into a machine or comes out of it, and the
// checker of that rule must report it. A checker that no mutant can trip checks nothing.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <variant>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

schedule quiet(std::uint64_t seed) {
  return quiet_schedule(seed, 3);
}

schedule with_failure(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 3);
  made.faults.push_back(fault_of(fault_kind::fail_worker, 1s, 1));
  return made;
}

schedule with_cut(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 3);
  made.options.settings.nodes_min = 1;
  const auto host = static_cast<std::uint32_t>(1 + seed % 3);
  made.faults.push_back(fault_of(fault_kind::isolate_host, 1500ms, host, 20s));
  made.heal_at = 22s;
  return made;
}

// Changes every `desired` that the daemon sends.
mutant with_desired(std::function<void(daemon&, desired&)> change) {
  mutant made;
  made.daemon_effects = [change](daemon& by, const core::daemon_event&,
                                 core::daemon_effects& effects) {
    for (auto& effect : effects) {
      auto* const sent = std::get_if<core::send_to_agent>(&effect);
      if (sent == nullptr || !std::holds_alternative<desired>(*sent->message)) continue;
      desired changed = std::get<desired>(*sent->message);
      change(by, changed);
      sent->message = std::make_shared<const daemon_message>(std::move(changed));
    }
  };
  return made;
}

// Drops effects of an agent.
template <typename Effect>
mutant without(std::function<bool(const agent&)> when = [](const agent&) { return true; }) {
  mutant made;
  made.agent_effects = [when](agent& by, const core::agent_event&, core::agent_effects& effects) {
    std::erase_if(effects, [&](const auto& effect) {
      return std::holds_alternative<Effect>(effect) && when(by);
    });
  };
  return made;
}

using Catch::Matchers::StartsWith;

// An agent that keeps its workers, whatever its machine orders, once `when` holds.
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

using Catch::Matchers::StartsWith;

TEST_CASE("mutant: ranks begin at the wrong place") {
  const mutant wrong = with_desired([](daemon&, desired& value) {
    if (value.assignment && value.assignment->group_rank == 1) value.assignment->rank_first -= 1;
  });
  REQUIRE_THAT(caught(wrong, 5, quiet), StartsWith("ranks:"));
}

TEST_CASE("mutant: ranks within a role begin at the wrong place") {
  const auto mixed = [](std::uint64_t seed) {
    schedule made = quiet_schedule(seed, 3);
    made.roles = 2;
    return made;
  };
  const mutant late = with_desired([](daemon&, desired& value) {
    if (value.assignment && value.assignment->in_role) ++value.assignment->in_role->world_size;
  });
  REQUIRE_THAT(caught(late, 5, mixed), StartsWith("ranks: those within role"));
  const mutant twice = with_desired([](daemon&, desired& value) {
    if (value.assignment && value.assignment->in_role) value.assignment->in_role->rank_first = 0;
  });
  REQUIRE_THAT(caught(twice, 5, mixed), StartsWith("ranks: a rank within a role"));
}

TEST_CASE("mutant: one member is told of another world") {
  const mutant wrong = with_desired([](daemon&, desired& value) {
    if (value.assignment && value.assignment->group_rank == 2) value.assignment->world_size += 1;
  });
  REQUIRE_THAT(caught(wrong, 5, quiet), StartsWith("ranks:"));
}

TEST_CASE("mutant: the daemon takes every broken connection for a proof of death") {
  mutant hasty;
  hasty.daemon_event = [](daemon& by, core::daemon_event& event) {
    const auto* const gone = std::get_if<core::connection_ended>(&event);
    if (gone == nullptr) return true;
    event = guardians_word(by, gone->connection);
    return true;
  };
  const auto broken = [](std::uint64_t seed) {
    schedule made = with_cut(seed);
    made.faults.insert(made.faults.begin(), fault_of(fault_kind::break_daemon_connection, 1490ms,
                                                     static_cast<std::uint32_t>(1 + seed % 3)));
    return made;
  };
  REQUIRE_THAT(caught(hasty, 100, broken), StartsWith("overlap:"));
}

TEST_CASE("mutant: a member never isolates itself") {
  mutant stubborn;
  stubborn.agent_effects = [](agent& by, const core::agent_event& event,
                              core::agent_effects& effects) {
    if (!std::holds_alternative<core::agent_time_passed>(event) || by.connected()) return;
    std::erase_if(effects, [](const auto& effect) {
      return std::holds_alternative<core::kill_workers>(effect);
    });
  };
  const auto cut_off = [](std::uint64_t seed) {
    schedule made = with_cut(seed);
    made.faults.push_back(fault_of(fault_kind::break_daemon_connection, 1490ms,
                                   static_cast<std::uint32_t>(1 + seed % 3)));
    return made;
  };
  REQUIRE_THAT(caught(stubborn, 100, cut_off), StartsWith("overlap:"));
}

TEST_CASE("mutant: agents say that they have stopped, and have not") {
  mutant liar;
  liar.agent_event = [](agent& by, core::agent_event& event) {
    const bool stopping = by.machine().phase() == member_phase::stopping;
    if (stopping && std::holds_alternative<core::agent_time_passed>(event) && by.group) {
      for (std::uint32_t rank = 0; rank < by.group->workers.size(); ++rank) {
        core::worker_ended ended;
        ended.round = by.group->round;
        ended.local_rank = rank;
        ended.success = true;
        by.step_unchanged(ended);
      }
    }
    return true;
  };
  const auto slow = [](std::uint64_t seed) {
    schedule made = with_failure(seed);
    made.options.habits.ignores_term_percent = 100;
    made.options.habits.collateral_percent = 0;
    made.options.settings.timing.stop_grace = 5s;
    return made;
  };
  REQUIRE_THAT(caught(liar, 20, slow), StartsWith("overlap:"));
}

TEST_CASE("mutant: a failure is charged twice") {
  const mutant greedy = with_desired([](daemon&, desired& value) { value.restarts_used *= 2; });
  REQUIRE_THAT(caught(greedy, 20, with_failure), StartsWith("rounds:"));
}

TEST_CASE("mutant: restarts are forgotten") {
  const auto twice = [](std::uint64_t seed) {
    schedule made = with_failure(seed);
    made.faults.push_back(fault_of(fault_kind::fail_worker, 6s, 2));
    made.heal_at = 8s;
    return made;
  };
  mutant forgetful;
  forgetful.agent_effects = [](agent&, const core::agent_event&, core::agent_effects& effects) {
    for (auto& effect : effects) {
      auto* const start = std::get_if<core::start_workers>(&effect);
      if (start != nullptr && start->restarts_used > 1) start->restarts_used = 0;
    }
  };
  REQUIRE_THAT(caught(forgetful, 20, twice), StartsWith("rounds:"));
}

TEST_CASE("mutant: the round's number is used twice") {
  const mutant stuck = with_desired([](daemon&, desired& value) {
    if (value.round > 1) value.round = 1;
  });
  const std::string violation = caught(stuck, 20, with_failure);
  CAPTURE(violation);
  REQUIRE(violation != "nothing");
}

// A node that does not obey is lost after a while, and so isolates itself.
TEST_CASE("a stop that is lost costs a round and not the run") {
  mutant lossy;
  lossy.daemon_effects = [](daemon&, const core::daemon_event&, core::daemon_effects& effects) {
    std::erase_if(effects, [](const auto& effect) {
      const auto* const sent = std::get_if<core::send_to_agent>(&effect);
      if (sent == nullptr) return false;
      const auto* const order = std::get_if<desired>(sent->message.get());
      return order != nullptr && order->phase == desired_phase::stop;
    });
  };
  const auto alone = [](std::uint64_t seed) {
    schedule made = with_failure(seed);
    made.options.habits.collateral_percent = 0;
    return made;
  };
  REQUIRE(caught(lossy, 20, alone) == "nothing");
}

TEST_CASE("mutant: no round is ever assigned") {
  mutant idle;
  idle.daemon_effects = [](daemon&, const core::daemon_event&, core::daemon_effects& effects) {
    std::erase_if(effects, [](const auto& effect) {
      const auto* const sent = std::get_if<core::send_to_agent>(&effect);
      if (sent == nullptr) return false;
      const auto* const order = std::get_if<desired>(sent->message.get());
      return order != nullptr && order->phase == desired_phase::run;
    });
  };
  const auto patient = [](std::uint64_t seed) {
    schedule made = quiet_schedule(seed, 3);
    made.options.settings.restarts_max = 1000;
    return made;
  };
  REQUIRE_THAT(caught(idle, 3, patient), StartsWith("liveness:"));
}

TEST_CASE("mutant: an agent that is told to close stays") {
  REQUIRE_THAT(caught(without<core::leave>(), 3, quiet), StartsWith("closed:"));
}

TEST_CASE("mutant: one agent leaves with a code of its own") {
  mutant odd;
  odd.agent_effects = [](agent& by, const core::agent_event&, core::agent_effects& effects) {
    for (auto& effect : effects) {
      auto* const last = std::get_if<core::leave>(&effect);
      if (last != nullptr && by.index == 1) last->exit_code = 7;
    }
  };
  const auto stopped = [](std::uint64_t seed) {
    schedule made = quiet_schedule(seed, 3);
    made.faults.push_back(fault_of(fault_kind::operator_stop, 1500ms, 0));
    return made;
  };
  REQUIRE_THAT(caught(odd, 3, stopped), StartsWith("closed:"));
}

TEST_CASE("mutant: a closed instance opens again") {
  const mutant reopening = with_desired([](daemon&, desired& value) {
    static thread_local assignment last;
    if (value.assignment) last = *value.assignment;
    if (value.phase != desired_phase::close || last.group_rank + 1 != last.group_world_size) return;
    value.phase = desired_phase::run;
    value.round += 1;
    value.assignment = last;
    value.assignment->group_rank = 0;
    value.assignment->rank_first = 0;
    value.assignment->group_world_size = 1;
    value.assignment->world_size = 2;
  });
  const auto one = [](std::uint64_t seed) { return quiet_schedule(seed, 1); };
  REQUIRE_THAT(caught(reopening, 3, one), StartsWith("closed:"));
}

TEST_CASE("mutant: every state waits in a peer's queue") {
  mutant hoarder;
  hoarder.queues_replace = false;
  const auto narrow = [](std::uint64_t seed) {
    schedule made = with_cut(seed);
    made.options.window_most = 1;
    return made;
  };
  REQUIRE_THAT(caught(hoarder, 20, narrow), StartsWith("queue:"));
}

TEST_CASE("mutant: a deadline that has passed is never dealt with") {
  mutant asleep;
  asleep.daemon_event = [](daemon&, core::daemon_event& event) {
    return !std::holds_alternative<core::time_passed>(event);
  };
  REQUIRE_THAT(caught(asleep, 20, with_cut), StartsWith("a deadline in the past"));
}

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

// No node died, so the daemon has no reason to wait for orphan_limit.
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
