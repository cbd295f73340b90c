#include "tests/simulation/schedule.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

duration milliseconds(std::uint64_t count) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(count));
}

// Most runs go on whatever fails, because nearly everything here happens within seconds of a start.
void draw_restart_rules(run_settings& settings, random_source random) {
  settings.quick_failures_max =
      random.chance(90) ? 0 : static_cast<std::uint32_t>(1 + random.below(3));
  settings.node_failures_max =
      random.chance(80) ? 0 : static_cast<std::uint32_t>(1 + random.below(3));
  settings.timing.startup_window = milliseconds(random.below(10'000));
  settings.timing.backoff_max = random.chance(50) ? 0ms : milliseconds(random.below(4000));
  settings.timing.restart_window = random.chance(50) ? 0ms : milliseconds(500 + random.below(5000));
  // So that the window matters.
  if (settings.timing.restart_window > 0ms && random.chance(50))
    settings.restarts_max = static_cast<std::uint32_t>(random.below(4));
}

run_settings random_settings(random_source& random) {
  run_settings settings;
  settings.nodes_max = static_cast<std::uint32_t>(1 + random.below(random.chance(5) ? 16 : 4));
  settings.nodes_min = static_cast<std::uint32_t>(1 + random.below(settings.nodes_max));
  settings.spares_max = static_cast<std::uint32_t>(random.below(3));
  settings.restarts_max = random.chance(80) ? 50 : static_cast<std::uint32_t>(random.below(3));
  settings.node_losses_max = random.chance(80) ? 50 : static_cast<std::uint32_t>(random.below(3));
  settings.on_join = random.chance(50) ? join_policy::wait : join_policy::restart;
  timers& timing = settings.timing;
  timing = timers_for(random.chance(50) ? 5s : 10s);
  if (random.chance(80)) {
    timing.heartbeat_interval = timing.node_timeout / 5;
    timing.isolation_limit = timing.node_timeout - 2 * timing.heartbeat_interval;
  }
  timing.stop_grace = milliseconds(500 + random.below(3000));
  timing.drain_grace = milliseconds(1000 + random.below(4000));
  timing.kill_wait = milliseconds(500 + random.below(3000));
  timing.start_timeout = milliseconds(5000 + random.below(10000));
  timing.join_timeout = 90s;
  timing.last_call_timeout = milliseconds(random.below(4000));
  timing.reconnect_grace = milliseconds(500 + random.below(1500));
  timing.settle = milliseconds(random.below(1000));
  timing.settle_max = 3s;
  timing.orphan_limit = milliseconds(15000 + random.below(10000));
  timing.recovery_window = timing.node_timeout;
  return settings;
}

worker_habits random_habits(random_source& random) {
  worker_habits habits;
  habits.collateral_percent = random.chance(50) ? 100 : static_cast<unsigned>(random.below(100));
  habits.collateral_most = milliseconds(random.below(4000));
  if (random.chance(30)) habits.ignores_term_percent = static_cast<unsigned>(random.below(100));
  if (random.chance(30)) habits.stop_most = milliseconds(100 + random.below(4000));
  if (random.chance(20)) habits.start_most = milliseconds(100 + random.below(4000));
  return habits;
}

health_habits random_health(random_source random) {
  health_habits health;
  health.are_checked = random.chance(40);
  health.ill_percent = random.chance(50) ? 10 : static_cast<unsigned>(random.below(100));
  if (random.chance(20)) health.check_most = 4s;
  return health;
}

}  // namespace

schedule random_schedule(std::uint64_t seed) {
  random_source random = random_source(seed).fork(77);
  schedule made;
  made.options.seed = seed;
  made.options.settings = random_settings(random);
  draw_restart_rules(made.options.settings, random_source(seed).fork(78));
  made.options.habits = random_habits(random);
  if (random.chance(20)) made.options.double_percent = 20;
  made.options.first_daemon_recovers = random.chance(20);
  const run_settings& settings = made.options.settings;
  made.nodes = settings.nodes_max + static_cast<std::uint32_t>(random.below(2));
  for (std::uint32_t index = 0; index < made.nodes; ++index)
    made.worker_counts.push_back(static_cast<std::uint32_t>(1 + random.below(3)));
  made.daemon_on_first_host = random.chance(25);
  // Now and then a schedule takes hours, most of which are quiet.
  const bool lasts_hours = random.below(2000) == 0;
  const duration last =
      lasts_hours ? random.between(1h, 2h) : random.between(1s, 4 * settings.timing.node_timeout);
  if (random.chance(3)) made.calm = 150s;
  const std::uint64_t count = 1 + random.below(random.chance(50) ? 3 : 8);
  for (std::uint64_t index = 0; index < count; ++index) {
    made.faults.push_back(random_fault(random, made.nodes + 1, settings.timing, last));
    if (index > 0 && random.chance(30)) made.faults.back().at = made.faults[index - 1].at + 20ms;
  }
  made.heal_at = last + random.between(0ms, settings.timing.node_timeout);
  if (random.chance(20)) made.roles = 2;
  made.options.hosts_share_name = random_source(seed).fork(79).chance(10);
  made.options.health = random_health(random_source(seed).fork(80));
  return made;
}

duration recovery_bound(const run_settings& settings, bool orphaned) {
  const timers& timing = settings.timing;
  return timing.node_timeout + 2 * timing.isolation_limit + timing.settle_max + timing.stop_grace +
         timing.drain_grace + 2 * timing.kill_wait + timing.recovery_window +
         timing.last_call_timeout + timing.start_timeout + timing.backoff_max +
         (orphaned ? timing.orphan_limit : duration::zero()) + 20s;
}

schedule shrink(schedule failing) {
  bool smaller = true;
  while (smaller) {
    smaller = false;
    for (std::size_t index = 0; index < failing.faults.size(); ++index) {
      schedule candidate = failing;
      candidate.faults.erase(candidate.faults.begin() + static_cast<std::ptrdiff_t>(index));
      if (play(candidate).violation.empty()) continue;
      failing = std::move(candidate);
      smaller = true;
      break;
    }
  }
  return failing;
}

std::string to_text(const schedule& plan) {
  std::string text =
      "--seed=" + std::to_string(plan.options.seed) + ": " + std::to_string(plan.nodes) + " nodes";
  for (const auto& [name, value] : to_named_values(plan.options.settings))
    text += ", " + name + " " + value;
  if (plan.options.journal != journal_kind::none)
    text += std::string(", journal ") + to_text(plan.options.journal);
  if (plan.roles > 1) text += ", " + std::to_string(plan.roles) + " roles";
  text += "\n";
  for (const fault& each : plan.faults)
    text += "  " + to_text(each) + "\n";
  return text + "  " + ddprun::to_text(plan.heal_at) + " everything heals\n";
}

}  // namespace ddprun::simulation
