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

run_settings random_settings(random_source& random) {
  run_settings settings;
  settings.nodes_max = static_cast<std::uint32_t>(1 + random.below(4));
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

struct weighted {
  fault_kind kind;
  unsigned weight;
};

constexpr weighted kinds[] = {
    {fault_kind::break_daemon_connection, 10},
    {fault_kind::break_tether, 6},
    {fault_kind::isolate_host, 10},
    {fault_kind::split, 10},
    {fault_kind::silence, 10},
    {fault_kind::kill_agent, 8},
    {fault_kind::lose_power, 6},
    {fault_kind::stop_agent, 4},
    {fault_kind::freeze_host, 4},
    {fault_kind::kill_daemon, 10},
    {fault_kind::stop_daemon, 4},
    {fault_kind::fail_worker, 10},
    {fault_kind::unkillable, 3},
    {fault_kind::fail_service, 3},
    {fault_kind::fail_start, 3},
    {fault_kind::signal_agent, 3},
    {fault_kind::join, 6},
    {fault_kind::finish, 2},
    {fault_kind::operator_stop, 1},
};

fault random_fault(random_source& random, std::uint32_t hosts, const timers& timing, moment last) {
  unsigned total = 0;
  for (const weighted& each : kinds)
    total += each.weight;
  auto drawn = static_cast<unsigned>(random.below(total));
  fault made;
  for (const weighted& each : kinds) {
    made.kind = each.kind;
    if (drawn < each.weight) break;
    drawn -= each.weight;
  }
  made.at = random.between(0ms, last);
  made.host = static_cast<std::uint32_t>(random.below(hosts));
  made.other = static_cast<std::uint32_t>(random.below(hosts));
  made.mask = random.next();
  // Half of them end about when something else happens: that is where mistakes live.
  const duration edges[] = {timing.heartbeat_interval, timing.reconnect_grace,
                            timing.isolation_limit, timing.node_timeout,
                            timing.node_timeout + timing.isolation_limit};
  made.length = random.chance(50) ? random.between(1ms, 2 * timing.node_timeout)
                                  : edges[random.below(5)] + random.between(0ms, 500ms);
  made.value = static_cast<int>(random.below(2));
  if (made.kind == fault_kind::signal_agent) {
    const int signals[] = {2, 15, 15, 1};
    made.value = signals[random.below(4)];
  }
  if (made.kind == fault_kind::kill_agent || made.kind == fault_kind::lose_power) {
    if (random.chance(30)) made.length = 0ms;
  }
  return made;
}

}  // namespace

schedule random_schedule(std::uint64_t seed) {
  random_source random = random_source(seed).fork(77);
  schedule made;
  made.options.seed = seed;
  made.options.settings = random_settings(random);
  made.options.habits = random_habits(random);
  if (random.chance(20)) made.options.double_percent = 20;
  made.options.first_daemon_recovers = random.chance(20);
  const run_settings& settings = made.options.settings;
  made.nodes = settings.nodes_max + static_cast<std::uint32_t>(random.below(2));
  for (std::uint32_t index = 0; index < made.nodes; ++index)
    made.worker_counts.push_back(static_cast<std::uint32_t>(1 + random.below(3)));
  made.daemon_on_first_host = random.chance(25);
  const duration last = random.between(1s, 4 * settings.timing.node_timeout);
  const std::uint64_t count = 1 + random.below(random.chance(50) ? 3 : 8);
  for (std::uint64_t index = 0; index < count; ++index) {
    made.faults.push_back(random_fault(random, made.nodes + 1, settings.timing, last));
    if (index > 0 && random.chance(30)) made.faults.back().at = made.faults[index - 1].at + 20ms;
  }
  made.heal_at = last + random.between(0ms, settings.timing.node_timeout);
  return made;
}

duration recovery_bound(const run_settings& settings) {
  const timers& timing = settings.timing;
  return timing.node_timeout + 2 * timing.isolation_limit + timing.settle_max + timing.stop_grace +
         timing.drain_grace + 2 * timing.kill_wait + timing.recovery_window +
         timing.last_call_timeout + timing.start_timeout + timing.orphan_limit + 20s;
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
  static const char* const names[] = {"break_daemon_connection",
                                      "break_tether",
                                      "isolate_host",
                                      "split",
                                      "silence",
                                      "kill_agent",
                                      "lose_power",
                                      "stop_agent",
                                      "freeze_host",
                                      "kill_daemon",
                                      "stop_daemon",
                                      "fail_worker",
                                      "unkillable",
                                      "fail_service",
                                      "fail_start",
                                      "signal_agent",
                                      "join",
                                      "finish",
                                      "operator_stop",
                                      "islands",
                                      "succeed_node",
                                      "signal_all",
                                      "break_all"};
  std::string text =
      "--seed=" + std::to_string(plan.options.seed) + ": " + std::to_string(plan.nodes) + " nodes";
  for (const auto& [name, value] : to_named_values(plan.options.settings))
    text += ", " + name + " " + value;
  text += "\n";
  for (const fault& each : plan.faults) {
    text += "  " + ddprun::to_text(each.at) + " " + names[static_cast<int>(each.kind)] + " host " +
            std::to_string(each.host) + " other " + std::to_string(each.other) + " mask " +
            std::to_string(each.mask & 0xffffff) + " for " + ddprun::to_text(each.length) +
            " value " + std::to_string(each.value) + "\n";
  }
  return text + "  " + ddprun::to_text(plan.heal_at) + " everything heals\n";
}

}  // namespace ddprun::simulation
