// What the record of a daemon that died tells the next one, as stories with the mutants that break
// them: which nodes were in the newest round, an end that was due, and how earlier instances ended.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <variant>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::StartsWith;

// Clocks are off by up to 1 %; a write may take a second, and two of them may have to finish.
constexpr duration record_slack = 3s;

// By their names all nodes seem to be on the same host.
mutant of_one_host() {
  mutant made;
  made.daemon_event = [](daemon&, core::daemon_event& event) {
    auto* const said = std::get_if<core::agent_said>(&event);
    if (said == nullptr) return true;
    said->local_address = said->peer_address;
    if (auto* const greeting = std::get_if<hello>(&said->message)) greeting->host = "host";
    return true;
  };
  return made;
}

void cut_off(world& in, host_id one, bool is_cut) {
  for (host_id other = 0; other < in.hosts(); ++other) {
    if (other == one) continue;
    in.net().set_silent(one, other, is_cut);
    in.net().set_silent(other, one, is_cut);
  }
}

bool lives_in(world& in, instance_id instance) {
  const auto& live = in.checks().live();
  return std::any_of(live.begin(), live.end(), [instance](const auto& each) {
    return each->alive > 0 && each->instance == instance;
  });
}

// The two nodes that run cannot reach the next daemon, but `newcomers` other nodes can, when the
// recovery window is over. The two run on if they come back after it, and until then the others
// wait, even if ranks are exact and the newcomers have the ranks of the two.
std::string late_again(std::uint64_t seed, std::uint32_t newcomers, const mutant& mutation = {},
                       rank_policy ranks = rank_policy::hint) {
  schedule plan = with_journal(quiet_schedule(seed, 2), journal_kind::kept);
  plan.options.mutation = mutation;
  const bool is_exact = ranks == rank_policy::exact;
  plan.options.settings.ranks = ranks;
  plan.options.settings.nodes_min = is_exact ? 2 : 1;
  plan.options.settings.spares_max = is_exact ? 0 : newcomers;
  world in(plan.options);
  for (std::uint32_t index = 0; index < 3 + newcomers; ++index)
    in.add_host();
  in.start_daemon(in.host_at(0));
  in.start_agent(in.host_at(1));
  in.start_agent(in.host_at(2));
  if (!in.run_until_true([&] { return in.checks().any_full(2); }, record_slack)) return "no round";
  in.run_for(3s);
  in.kill_daemon();
  for (host_id on = 1; on <= 2; ++on) {
    in.net().set_silent(on, 0, true);
    in.net().set_silent(0, on, true);
  }
  in.start_daemon(in.host_at(0));
  for (host_id on = 3; on < in.hosts(); ++on)
    in.start_agent(in.host_at(on));
  in.run_for(plan.options.settings.timing.recovery_window * 51 / 50 + 1s);
  in.heal_everything();
  in.run_for(5s);
  if (in.over()) return in.violation();
  if (!in.checks().any_full(2)) return "nobody runs";
  return unlike("rounds", in.checks().rounds_started(), 1);
}

// A failure is beyond the budget. The daemon dies while the round stops, and in half of the worlds
// all others die with it. No round follows in that instance: nodes that come back leave with the
// failure's exit code. What is started again, even on one host long before the other, is another
// instance, which has its round as soon as both nodes are there.
std::string failed_beyond(std::uint64_t seed, const mutant& mutation = {}) {
  schedule plan = with_journal(quiet_schedule(seed, 2), journal_kind::kept);
  plan.options.mutation = mutation;
  plan.options.settings.restarts_max = 0;
  plan.options.slow_disk_percent = 0;
  plan.options.habits.collateral_percent = 0;
  plan.options.habits.ignores_term_percent = 100;  // the stop takes stop_grace
  random_source random = random_source(seed).fork(91);
  world in(plan.options);
  for (std::uint32_t index = 0; index < 3; ++index)
    in.add_host();
  in.start_daemon(in.host_at(0));
  in.start_agent(in.host_at(1));
  in.start_agent(in.host_at(2));
  if (!in.run_until_true([&] { return in.checks().any_full(2); }, record_slack)) return "no round";
  in.run_for(1s);
  const instance_id failed = in.agents()[0]->group->instance;
  in.fail_worker(*in.agents()[random.below(2)]->group, 0, cause_class::exit, 3);
  in.run_for(200ms + random.between(0ms, 500ms));
  const bool all_die = random.chance(50);
  in.kill_daemon();
  if (all_die) {
    for (const auto& each : in.agents())
      in.kill_agent(*each);
  }
  in.run_for(random.between(0ms, 500ms));
  in.start_daemon(in.host_at(0));
  if (all_die) {
    const duration window = in.settings().timing.recovery_window * 51 / 50;
    in.start_agent(in.host_at(1));
    in.run_for(random.between(0ms, 2 * window));
    in.start_agent(in.host_at(2));
    if (!in.run_until_true([&] { return in.checks().any_full(2); }, window + record_slack))
      return "what was started again does not run: " + in.current_daemon()->why();
    if (lives_in(in, failed)) return "another round of the instance that had failed";
    return in.violation();
  }
  in.run_for(in.settings().timing.recovery_window * 51 / 50 + 10s);
  if (in.checks().rounds_started() != 1) return "another round of the instance that had failed";
  for (const auto& each : in.agents()) {
    if (!each->left()) return "an agent has not left: " + each->why();
    if (each->left()->exit_code != 3) return unlike("exit code", each->left()->exit_code, 3);
  }
  return in.violation();
}

// One of two nodes is cut off; the run goes on without it, fails and is closed, and another node
// opens the next instance. When that node and the daemon are dead, the first one comes back to the
// next daemon, and its instance is over.
std::string back_from_before(std::uint64_t seed, const mutant& mutation = {}) {
  schedule plan = with_journal(quiet_schedule(seed, 2), journal_kind::kept);
  plan.options.mutation = mutation;
  plan.options.settings.nodes_min = 1;
  plan.options.settings.restarts_max = 0;
  plan.options.habits.collateral_percent = 0;
  random_source random = random_source(seed).fork(92);
  world in(plan.options);
  for (std::uint32_t index = 0; index < 4; ++index)
    in.add_host();
  in.start_daemon(in.host_at(0));
  in.start_agent(in.host_at(1));
  in.start_agent(in.host_at(2));
  if (!in.run_until_true([&] { return in.checks().any_full(2); }, record_slack)) return "no round";
  in.run_for(1s);
  const instance_id before = in.agents()[0]->group->instance;
  const host_id away = in.agents()[1]->group->host;
  cut_off(in, away, true);
  const auto goes_on = [&] { return in.agents()[0]->group->round > 1 && in.checks().any_full(1); };
  if (!in.run_until_true(goes_on, 20s))
    return "the run does not go on: " + in.current_daemon()->why();
  in.fail_worker(*in.agents()[0]->group, 0, cause_class::exit, 3);
  if (!in.run_until_true([&] { return in.agents()[0]->left().has_value(); }, 10s))
    return "the run was not closed: " + in.current_daemon()->why();
  in.start_agent(in.host_at(3));
  if (!in.run_until_true([&] { return in.checks().any_full(1) && !lives_in(in, before); }, 10s))
    return "no round of the next instance: " + in.current_daemon()->why();
  in.run_for(1s + random.between(0ms, 500ms));
  in.kill_daemon();
  in.kill_agent(*in.agents()[2]);
  in.run_for(random.between(0ms, 500ms));
  in.start_daemon(in.host_at(0));
  cut_off(in, away, false);
  in.run_for(in.settings().timing.recovery_window * 51 / 50 + 10s);
  const agent& late = *in.agents()[1];
  if (!late.left()) return "it goes on in an instance that is over: " + late.why();
  return unlike("exit code", late.left()->exit_code, 3) + in.violation();
}

std::string each_seed(std::uint64_t count,
                      const std::function<std::string(std::uint64_t)>& play_one) {
  if (std::getenv("DDPRUN_SIMULATION_SEED") != nullptr)
    return play_one(number_from("DDPRUN_SIMULATION_SEED", 0));
  for (std::uint64_t seed = 0; seed < scaled(count); ++seed) {
    const std::string wrong = play_one(seed);
    if (!wrong.empty()) return "--seed=" + std::to_string(seed) + ": " + wrong;
  }
  return "";
}

// Returns what one of ten seeds has caught.
std::string caught_by(const std::function<std::string(std::uint64_t)>& play_one) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::string wrong = play_one(seed);
    if (!wrong.empty()) return wrong;
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a round that comes back late goes on where only newcomers wait") {
  for (const std::uint32_t newcomers : {1U, 2U, 3U}) {
    INFO(newcomers << " of them");
    REQUIRE(each_seed(50, [&](std::uint64_t seed) { return late_again(seed, newcomers); }) == "");
  }
  REQUIRE(each_seed(50, [](std::uint64_t seed) {
            return late_again(seed, 2, {}, rank_policy::exact);
          }) == "");
}

TEST_CASE("mutant: all nodes have one name in the records") {
  REQUIRE_THAT(caught_by([](std::uint64_t seed) { return late_again(seed, 2, of_one_host()); }),
               StartsWith("overlap:"));
}

TEST_CASE("no round follows a failure beyond the budget, though the daemon dies while it stops") {
  REQUIRE(each_seed(100, [](std::uint64_t seed) { return failed_beyond(seed); }) == "");
}

TEST_CASE("mutant: an end that is due is not persisted") {
  const mutant careless =
      with_changed_records([](core::run_record& record) { record.due.reset(); });
  REQUIRE_THAT(caught_by([&](std::uint64_t seed) { return failed_beyond(seed, careless); }),
               StartsWith("another round of the instance that had failed"));
}

TEST_CASE("a node of the instance before the newest one is told how that ended") {
  REQUIRE(each_seed(100, [](std::uint64_t seed) { return back_from_before(seed); }) == "");
}

TEST_CASE("mutant: how the instances before ended is not persisted") {
  const mutant forgetful = with_changed_records([](core::run_record& record) { record.past = {}; });
  REQUIRE_THAT(caught_by([&](std::uint64_t seed) { return back_from_before(seed, forgetful); }),
               StartsWith("it goes on in an instance that is over"));
}

}  // namespace ddprun::simulation
