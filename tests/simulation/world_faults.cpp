// What a scenario does to a world.
#include "tests/simulation/world.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun::simulation {

void world::kill_agent(agent& which) {
  if (!which.alive()) return;
  note_fault();
  trace([&] { return "SIGKILL to agent " + which.greeting().node; });
  which.die();
  anyone_died_ = true;
  network_.process_died(which, false);
  if (which.hosted != nullptr && which.hosted->alive()) {
    which.hosted->die();
    network_.process_died(*which.hosted, false);
  }
  guardians_.push_back(std::make_unique<guardian>(*this, which.where(), which));
  guardians_.back()->begin();
}

void world::kill_daemon() {
  daemon* const which = current_daemon();
  if (which == nullptr) return;
  if (which->inside() != nullptr && which->inside()->alive()) return kill_agent(*which->inside());
  note_fault();
  trace([&] { return "SIGKILL to the daemon"; });
  which->die();
  network_.process_died(*which, false);
}

void world::stop_process(agent& which) {
  note_fault();
  trace([&] { return "SIGSTOP to " + which.greeting().node; });
  which.stand_still();
  if (which.hosted != nullptr) which.hosted->stand_still();
}

void world::continue_process(agent& which) {
  note_trouble();
  which.continue_after_stop();
  if (which.hosted != nullptr) which.hosted->continue_after_stop();
}

void world::stop_daemon(daemon& which) {
  if (which.inside() != nullptr && which.inside()->alive()) return stop_process(*which.inside());
  note_fault();
  trace([] { return "SIGSTOP to the daemon"; });
  which.stand_still();
}

void world::continue_daemon(daemon& which) {
  note_trouble();
  which.continue_after_stop();
  if (which.inside() != nullptr) which.inside()->continue_after_stop();
}

void world::make_deaf(agent& which) {
  note_fault();
  trace([&] { return which.greeting().node + " obeys nobody any more"; });
  which.deaf = true;
}

duration world::trouble_lasts() const {
  const timers& timing = settings().timing;
  return timing.orphan_limit + 2 * timing.node_timeout + timing.start_timeout +
         timing.recovery_window + timing.settle_max + timing.drain_grace + 2 * timing.kill_wait +
         timing.last_call_timeout + std::chrono::seconds(10);
}

// Only its loop stands still; what else lives in its process goes on.
void world::block(agent& which) {
  note_fault();
  trace([&] { return "the loop of " + which.greeting().node + " is blocked"; });
  which.stand_still();
}

void world::lose_power(host& which) {
  if (!which.powered) return;
  note_fault();
  trace([&] { return which.name + " loses power"; });
  which.powered = false;
  anyone_died_ = true;
  which.standing_still = false;
  which.deferred.clear();
  const auto off = [&](process& each) {
    if (!each.alive() || &each.where() != &which) return;
    each.die();
    network_.process_died(each, true);
  };
  for (const auto& each : agents_)
    off(*each);
  for (const auto& each : daemons_)
    off(*each);
  for (const auto& each : guardians_)
    off(*each);
  for (const auto& group : checkers_.live()) {
    if (group->host != which.id) continue;
    for (worker& each : group->workers)
      each.alive = false;
    group->alive = 0;
  }
}

void world::give_power(host& which) {
  if (which.powered) return;
  note_trouble();
  which.powered = true;
  ++which.boots;
  trace([&] { return which.name + " has power again"; });
}

void world::stand_still(host& which, bool clock_too) {
  if (!which.powered || which.standing_still) return;
  note_fault();
  trace([&] { return which.name + " stands still" + (clock_too ? ", its clock too" : ""); });
  which.standing_still = true;
  which.still_since = now();
  which.clock_stands_still = clock_too;
  for (const auto& each : agents_)
    if (&each->where() == &which && each->alive()) each->host_stands_still();
  for (const auto& each : daemons_)
    if (&each->where() == &which && each->alive()) each->host_stands_still();
  for (const auto& each : guardians_)
    if (&each->where() == &which && each->alive()) each->host_stands_still();
}

void world::go_on(host& which) {
  if (!which.standing_still) return;
  note_trouble();
  trace([&] { return which.name + " goes on"; });
  which.standing_still = false;
  if (which.clock_stands_still) {
    which.clock.stood_still(which.still_since, now());
    which.clock_went_on_at = now();
  }
  network_.islands_changed();
  for (auto& what : std::exchange(which.deferred, {}))
    what();
  for (const auto& each : agents_)
    if (&each->where() == &which) each->go_on();
  for (const auto& each : daemons_)
    if (&each->where() == &which) each->go_on();
  for (const auto& each : guardians_)
    if (&each->where() == &which) each->go_on();
}

void world::set_island(host& which, std::uint32_t island) {
  if (which.island == island) return;
  note_fault();
  which.island = island;
  trace([&] { return which.name + " moves to island " + std::to_string(island); });
  network_.islands_changed();
}

bool world::faults_active() const {
  return network_.any_silent() || std::any_of(hosts_.begin(), hosts_.end(), [](const auto& each) {
           return each->island != 0 || each->standing_still || !each->powered;
         });
}

void world::forget_planned_failures() {
  services_to_fail_.clear();
  starts_to_fail_.clear();
  starts_to_stall_.clear();
}

void world::heal_everything() {
  note_trouble();
  trace([] { return "everything heals"; });
  for (const auto& each : hosts_)
    each->island = 0;
  network_.heal_links();
  for (const auto& each : hosts_)
    go_on(*each);
  for (const auto& each : agents_)
    each->continue_after_stop();
  for (const auto& each : daemons_)
    each->continue_after_stop();
}

}  // namespace ddprun::simulation
