// Live workers of two rounds of a run never overlap, whichever instance they belong to.
#include "tests/simulation/checkers.hpp"
#include "tests/simulation/simulated_agent.hpp"
#include "tests/simulation/simulated_daemon.hpp"
#include "tests/simulation/world.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace ddprun::simulation {

using namespace std::chrono_literals;

const strictness promised = {
    .across_instances = true,
    .orphans_end = true,
    .success_ends = true,
    .journal = false,
};

bool checkers::excused(const worker_group& older, moment& until) const {
  until = duration::max();
  if (older.only_unkillable()) return true;
  if (world_.host_at(older.host).standing_still) return true;
  const timers& timing = world_.settings().timing;
  const duration orphan = timing.orphan_limit;
  const bool orphans = !world_.strict().orphans_end;
  if (orphans && world_.now() - older.owner->heard_by_daemon >= orphan - orphan / 50) return true;
  std::optional<moment> back;
  // A host whose clock stood still, too, may even start workers on an order from before.
  const std::optional<moment> clock_back = world_.host_at(older.host).clock_went_on_at;
  if (const auto went_on = older.owner->went_on_at();
      went_on && (*went_on >= older.started || went_on == clock_back)) {
    back = went_on;
    // A host whose clock stood still, too, cannot know that it stood still.
    const duration notices = went_on == clock_back
                                 ? timing.isolation_limit * 51 / 50 + timing.heartbeat_interval
                                 : timing.heartbeat_interval * 51 / 25 + 50ms;
    until = *went_on + notices;
  }
  if (const auto heard = older.owner->orphan_until; orphans && heard && *heard >= older.started) {
    const moment limit = *heard + timing.isolation_limit * 51 / 50 + timing.heartbeat_interval;
    until = back ? std::max(until, limit) : limit;
    back = heard;
  }
  return back && world_.now() < until;
}

// An old record has the members of an older round, or no members.
void checkers::take_for_dead(const worker_group& group, instance_record& instance) {
  const daemon* const teller = world_.daemon_of(group.told_by);
  if (world_.folders_tampered() == 0 || teller == nullptr) return;
  round_record& here = instance.rounds.at(group.round);
  for (const auto& [number, older] : instance.rounds) {
    if (number >= group.round || older.started_by == group.told_by) continue;
    const bool is_heard = std::any_of(older.sessions.begin(), older.sessions.end(),
                                      [&](session_id who) { return teller->has_heard(who); });
    if (!is_heard) here.taken_for_dead.insert(number);
  }
}

// A daemon without a record cannot know of these workers. Once it hears of them, it ends them in
// its own ways.
bool checkers::is_unknown(const worker_group& older, const worker_group& newer) const {
  if (older.instance == newer.instance) {
    const auto& rounds = instances_.at(newer.instance).rounds;
    const auto found = rounds.find(newer.round);  // none: forgotten, see forget_unknown_rounds
    return found == rounds.end() || found->second.taken_for_dead.contains(older.round);
  }
  return !world_.strict().journal && instances_.at(newer.instance).unknown.contains(older.instance);
}

// That daemon went on with an instance of its own, and can only fence nodes that come from the
// older one.
bool checkers::is_unknown_to(std::uint64_t daemon, instance_id older) const {
  return !world_.strict().journal &&
         std::any_of(instances_.begin(), instances_.end(), [=](const auto& each) {
           return each.second.begun_by == daemon && each.second.unknown.contains(older);
         });
}

// A node whose clock stood still cannot know that its round went on without it, and a daemon
// without a record learns that only from a node of the newer round.
void checkers::acked(const agent& whom, const daemon& by) {
  const auto& group = whom.group;
  if (!group || group->alive == 0 || !world_.host_at(group->host).clock_went_on_at) return;
  if (by.newest_known(group->instance) <= group->round) group->kept_unknowing = world_.now();
}

std::optional<moment> checkers::unknowing_until(const worker_group& older) const {
  if (world_.strict().journal || !older.kept_unknowing) return std::nullopt;
  const timers& timing = world_.settings().timing;
  return *older.kept_unknowing + timing.isolation_limit * 51 / 50 + timing.heartbeat_interval;
}

bool checkers::excludes(const worker_group& one, const worker_group& other) const {
  if (one.instance == other.instance) return one.round != other.round;
  return one.run_id == other.run_id && one.owner->job == other.owner->job &&
         world_.strict().across_instances;
}

// The instance that started later is the newer one.
bool checkers::is_older(const worker_group& one, const worker_group& other) const {
  if (one.instance == other.instance) return one.round < other.round;
  return instances_.at(one.instance).order < instances_.at(other.instance).order;
}

void checkers::went_on(const process& which) {
  for (const auto& each : std::vector(live_))
    if (each->owner == &which && each->alive > 0) check_overlap(each);
}

void checkers::check_overlap(const std::shared_ptr<worker_group>& group) {
  if (group->alive == 0) return;
  for (const auto& other : live_) {
    if (other->alive == 0 || !excludes(*other, *group)) continue;
    const auto& older = is_older(*other, *group) ? other : group;
    const auto& newer = older == group ? other : group;
    const bool same = older->instance == newer->instance;
    const bool unknown = is_unknown(*older, *newer);
    moment until{};
    if ((same || !unknown) && excused(*older, until)) {
      ++overlaps_excused_;
      if (until != duration::max()) world_.time().at(until, [=, this] { check_overlap(older); });
      continue;
    }
    if (unknown) {
      ++overlaps_unknown_;
      continue;
    }
    const auto unknowing = unknowing_until(*older);
    if (!same || !unknowing || world_.now() >= *unknowing) {
      return violated(*older, "overlap: its workers live beside those of round " +
                                  std::to_string(newer->round) +
                                  (same ? "" : " of a later instance"));
    }
    ++overlaps_unknown_;
    world_.time().at(*unknowing, [=, this] { check_overlap(older); });
  }
}

}  // namespace ddprun::simulation
