// What a scenario does to a world.
#include "tests/simulation/world.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun::simulation {

void world::kill_agent(agent& which) {
  if (!which.alive()) return;
  ++faults_;
  trace([&] { return "SIGKILL to agent " + which.greeting().node; });
  which.die();
  network_.process_died(which, false);
  if (which.hosted != nullptr) daemon_exits(*which.hosted);
  guardians_.push_back(std::make_unique<guardian>(*this, which.where(), which));
  guardians_.back()->begin();
}

void world::kill_daemon() {
  daemon* const which = current_daemon();
  if (which == nullptr) return;
  if (which->inside() != nullptr && which->inside()->alive()) return kill_agent(*which->inside());
  ++faults_;
  trace([&] { return "SIGKILL to the daemon"; });
  which->die();
  network_.process_died(*which, false);
}

void world::stop_process(agent& which) {
  ++faults_;
  trace([&] { return "SIGSTOP to " + which.greeting().node; });
  which.stand_still();
  if (which.hosted != nullptr) which.hosted->stand_still();
}

void world::continue_process(agent& which) {
  which.continue_after_stop();
  if (which.hosted != nullptr) which.hosted->continue_after_stop();
}

void world::stop_daemon(daemon& which) {
  if (which.inside() != nullptr && which.inside()->alive()) return stop_process(*which.inside());
  ++faults_;
  trace([] { return "SIGSTOP to the daemon"; });
  which.stand_still();
}

void world::continue_daemon(daemon& which) {
  which.continue_after_stop();
  if (which.inside() != nullptr) which.inside()->continue_after_stop();
}

// Its loop alone: what else lives in its process goes on.
void world::block(agent& which) {
  ++faults_;
  trace([&] { return "the loop of " + which.greeting().node + " is blocked"; });
  which.stand_still();
}

void world::lose_power(host& which) {
  if (!which.powered) return;
  ++faults_;
  trace([&] { return which.name + " loses power"; });
  which.powered = false;
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
  which.powered = true;
  ++which.boots;
  trace([&] { return which.name + " has power again"; });
}

void world::stand_still(host& which, bool clock_too) {
  if (!which.powered || which.standing_still) return;
  ++faults_;
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
  ++faults_;
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
