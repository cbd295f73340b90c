// Live workers of two rounds of a run never overlap, whichever instance they belong to.
#include "tests/simulation/agent.hpp"
#include "tests/simulation/checkers.hpp"
#include "tests/simulation/world.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace ddprun::simulation {

using namespace std::chrono_literals;

bool checkers::excused(const worker_group& older, moment& until) const {
  until = duration::max();
  if (older.only_unkillable()) return true;
  if (older.owner->standing_still() && older.owner->alive()) return true;
  if (world_.host_at(older.host).standing_still) return true;
  const duration orphan = world_.settings().timing.orphan_limit;
  if (world_.now() - older.owner->heard_by_daemon >= orphan - orphan / 50) return true;
  // Back among the living, by itself or in the daemon's eyes, it has so long to notice.
  const duration limit = world_.settings().timing.isolation_limit;
  std::optional<moment> back = older.owner->orphan_until;
  if (const auto went_on = older.owner->went_on_at()) back = std::max(back.value_or(0s), *went_on);
  // One whose clock stood still, too, may even start on what it was told before.
  const std::optional<moment> clock_back = world_.host_at(older.host).clock_went_on_at;
  if (!back || (*back < older.started && back != clock_back)) return false;
  until = *back + limit + limit / 50 + world_.settings().timing.heartbeat_interval;
  return world_.now() < until;
}

bool checkers::excludes(const worker_group& one, const worker_group& other) const {
  if (one.instance == other.instance) return one.round != other.round;
  return one.run_id == other.run_id && world_.strict().across_instances;
}

// The instance that started later is the newer one.
bool checkers::is_older(const worker_group& one, const worker_group& other) const {
  if (one.instance == other.instance) return one.round < other.round;
  return instances_.at(one.instance).order < instances_.at(other.instance).order;
}

void checkers::check_overlap(const std::shared_ptr<worker_group>& group) {
  if (group->alive == 0) return;
  for (const auto& other : live_) {
    if (other->alive == 0 || !excludes(*other, *group)) continue;
    const auto& older = is_older(*other, *group) ? other : group;
    const auto& newer = older == group ? other : group;
    moment until{};
    if (!excused(*older, until)) {
      const bool same = older->instance == newer->instance;
      return violated(*older, "overlap: its workers live beside those of round " +
                                  std::to_string(newer->round) +
                                  (same ? "" : " of a later instance"));
    }
    ++overlaps_excused_;
    if (until != duration::max()) world_.time().at(until, [=, this] { check_overlap(older); });
  }
}

}  // namespace ddprun::simulation
