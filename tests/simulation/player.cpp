#include "tests/simulation/player.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace ddprun::simulation {

using namespace std::chrono_literals;

agent* player::agent_on(std::uint32_t number) {
  const host& on = host_at(number);
  const auto& all = world_.agents();
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const auto& each) {
    return &each->where() == &on && each->alive() && !each->left();
  });
  return found == all.rend() ? nullptr : found->get();
}

worker_group* player::group_on(std::uint32_t number) {
  agent* const found = agent_on(number);
  return found == nullptr ? nullptr : found->group.get();
}

void player::begin() {
  daemon_host_ = &world_.add_host();
  for (std::uint32_t index = 0; index < plan_.nodes; ++index)
    world_.add_host();
  if (plan_.daemon_on_first_host || plan_.embedded) daemon_host_ = &world_.host_at(1);
  world_.set_endpoint(*daemon_host_);
  if (!plan_.embedded) world_.start_daemon(*daemon_host_);
  for (std::uint32_t index = 0; index < plan_.nodes; ++index) {
    const std::uint32_t workers =
        plan_.worker_counts.empty() ? 2 : plan_.worker_counts[index % plan_.worker_counts.size()];
    world_.time().after(world_.random().between(0ms, 200ms), [=, this] {
      host& on = world_.host_at(index + 1);
      if (!on.powered) return;
      world_.start_agent(on, {.worker_count = workers,
                              .run_id = run_id_of(index),
                              .role = "role-" + std::to_string(index % plan_.roles)});
    });
  }
}

void player::heal() {
  world_.heal_everything();
  world_.forget_planned_failures();
  world_.give_power(*daemon_host_);
  if (!world_.has_daemon_at_endpoint()) bring_daemon();
  keep_a_daemon();
}

bool player::runs_again() const {
  const std::uint32_t least = plan_.options.settings.nodes_min;
  for (std::uint32_t index = 0; index < plan_.run_ids; ++index) {
    const std::string run_id = run_id_of(index);
    if (world_.agents_here(run_id) >= least && !world_.checks().any_full(least, run_id))
      return false;
  }
  return true;
}

void player::check_recovery(outcome& result) {
  const run_settings& settings = plan_.options.settings;
  const moment healed = world_.now();
  // The second half of a fault (a process that is started again) may come later.
  moment last = healed;
  for (const fault& each : plan_.faults)
    last = std::max(last, each.at + each.length);
  const duration bound = last - healed + recovery_bound(settings, world_.anyone_died());
  const auto settled = [&] { return world_.now() >= last && runs_again(); };
  if (!world_.run_until_true(settled, bound) && !world_.over()) {
    std::string text = "liveness: no round runs " + std::to_string(bound / 1s) + " s after healing";
    if (daemon* const here = world_.current_daemon()) text += "; the daemon: " + here->why();
    world_.violated(text);
  }
  result.until_running = world_.now() - last;
  if (plan_.calm > 0ms) world_.run_for(plan_.calm);
}

void player::check_end() {
  world_.finish_training();
  const auto nobody = [&] {
    return std::none_of(world_.agents().begin(), world_.agents().end(),
                        [](const auto& each) { return each->alive() && !each->deaf; });
  };
  const duration bound =
      2 * recovery_bound(plan_.options.settings) + 2 * plan_.options.settings.timing.join_timeout;
  if (world_.run_until_true(nobody, bound) || world_.over()) return;
  for (const auto& each : world_.agents()) {
    if (!each->alive() || each->deaf) continue;
    std::string text = "closed: " + each->greeting().node + " waits for ever: " + each->why();
    if (daemon* const here = world_.current_daemon()) text += "; the daemon: " + here->why();
    return world_.violated(text);
  }
}

void player::count_messages(const connection& over) {
  daemon* const here = world_.current_daemon();
  if (here == nullptr || over.ends[1].owner != here) return;
  ++daemon_messages_;
  if (plan_.daemon_messages == 0 || daemon_messages_ != plan_.daemon_messages) return;
  world_.kill_daemon();
  start_daemon_again(plan_.daemon_returns);
}

outcome player::run() {
  outcome result;
  world_.on_sent = [this](const connection& over, int, const parcel&) { count_messages(over); };
  begin();
  for (const fault& each : plan_.faults)
    world_.time().at(each.at, [=, this] { apply(each); });
  world_.run_until(plan_.heal_at);
  if (!world_.over()) {
    heal();
    check_recovery(result);
  }
  if (!world_.over()) check_end();
  result.violation = world_.violation();
  result.transcript = world_.transcript();
  result.lasted = world_.now();
  result.messages = world_.net().messages();
  result.daemon_messages = daemon_messages_;
  result.events = world_.time().events_run();
  result.rounds = world_.checks().rounds_started();
  result.overlaps_excused = world_.checks().overlaps_excused();
  result.overlaps_unknown = world_.checks().overlaps_unknown();
  result.folders_tampered = world_.folders_tampered();
  return result;
}

outcome play(const schedule& plan, bool tracing) {
  schedule traced = plan;
  traced.options.tracing = tracing;
  return player(traced).run();
}

}  // namespace ddprun::simulation
