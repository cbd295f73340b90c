#include "tests/simulation/checkers.hpp"

#include "tests/simulation/simulated_agent.hpp"
#include "tests/simulation/simulated_daemon.hpp"
#include "tests/simulation/simulated_network.hpp"
#include "tests/simulation/world.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace ddprun::simulation {

using namespace std::chrono_literals;

void checkers::violated(const worker_group& group, const std::string& text) {
  world_.violated(text + " (" + group.owner->greeting().node + ", round " +
                  std::to_string(group.round) + ")");
}

void checkers::forget_dead() {
  started_since_sweep_ = 0;
  std::erase_if(live_, [](const auto& each) { return each->alive == 0; });
}

bool ranks_given::add(std::uint32_t first, std::uint32_t count) {
  const auto [own, fresh] = blocks.emplace(first, count);
  const auto next = std::next(own);
  const bool follows =
      own == blocks.begin() || std::prev(own)->first + std::prev(own)->second <= first;
  const bool precedes = next == blocks.end() || first + count <= next->first;
  return fresh && follows && precedes;
}

std::uint32_t ranks_given::total() const {
  std::uint32_t sum = 0;
  for (const auto& [first, count] : blocks)
    sum += count;
  return sum;
}

void checkers::check_ranks(const worker_group& group, round_record& round, bool first) {
  const assignment& assigned = group.assignment;
  const auto count = static_cast<std::uint32_t>(group.workers.size());
  if (first) {
    round.common = assigned;
    round.restarts_used = group.restarts_used;
    round.began = world_.now();
    round.started_by = group.told_by;
  }
  const assignment& common = round.common;
  if (assigned.world_size != common.world_size ||
      assigned.group_world_size != common.group_world_size ||
      assigned.master_address != common.master_address ||
      assigned.master_port != common.master_port)
    return violated(group, "ranks: members disagree on world size or master");
  if (group.restarts_used != round.restarts_used)
    return violated(group, "rounds: members of a round have different restart counts");
  if (!round.sessions.insert(group.session).second)
    return violated(group, "ranks: workers of one round started twice on one node");
  if (assigned.group_rank >= assigned.group_world_size ||
      !round.group_ranks.insert(assigned.group_rank).second)
    return violated(group, "ranks: a group rank twice, or not below the group's size");
  const hello& greeting = group.owner->greeting();
  if (is_exact(greeting) && assigned.group_rank != greeting.node_rank)
    return violated(group, "ranks: a group rank is not the node rank that is exact");
  if (!round.ranks.add(assigned.rank_first, count))
    return violated(group, "ranks: a rank was given twice");
  if (assigned.rank_first + count > common.world_size)
    return violated(group, "ranks: a rank beyond the world size");
  check_ranks_in_role(group, round);
  if (round.group_ranks.size() < common.group_world_size) return;
  if (round.ranks.total() != common.world_size) violated(group, "ranks: not exactly 0..world-1");
}

void checkers::check_ranks_in_role(const worker_group& group, round_record& round) {
  const assignment& assigned = group.assignment;
  const role_ranks own =
      assigned.in_role.value_or(role_ranks{assigned.rank_first, assigned.world_size});
  auto& [given, world_size] = round.in_roles[group.owner->greeting().role];
  if (!given.add(own.rank_first, static_cast<std::uint32_t>(group.workers.size())))
    return violated(group, "ranks: a rank within a role was given twice");
  if (given.blocks.size() == 1) world_size = own.world_size;
  if (world_size != own.world_size)
    return violated(group, "ranks: members disagree on the size of their role");
  if (round.group_ranks.size() < round.common.group_world_size) return;
  for (const auto& [role, ranks] : round.in_roles) {
    const auto& blocks = ranks.first.blocks;
    const auto end = blocks.empty() ? 0 : blocks.rbegin()->first + blocks.rbegin()->second;
    if (ranks.first.total() != ranks.second || end != ranks.second)
      return violated(group, "ranks: those within role " + role + " are not exactly 0..size-1");
  }
}

// If the daemon dies together with every agent that it had told of a round, or of a charge, only a
// journal knows of it.
bool checkers::is_known(const worker_group& group, const round_record& round,
                        const std::function<std::set<session_id>()>& who_is_heard,
                        const std::function<bool(const agent&)>& was_told) const {
  const daemon* const here = world_.daemon_of(group.told_by);
  if (world_.strict().journal || here == nullptr || here->index == round.started_by) return true;
  const std::set<session_id> heard = who_is_heard();
  return std::any_of(world_.agents().begin(), world_.agents().end(), [&](const auto& each) {
    return each->alive() && heard.contains(each->session()) && was_told(*each);
  });
}

// The round's number is given out again or, by a daemon that reads an old copy of the journal, a
// smaller one. None of the round's workers may be alive then, unless such a copy says that none was
// ever started.
void checkers::forget_unknown_rounds(const worker_group& group, instance_record& instance) {
  const bool is_old_copy = world_.folders_tampered() != 0;
  const auto last = is_old_copy ? instance.rounds.end() : instance.rounds.upper_bound(group.round);
  for (auto at = instance.rounds.lower_bound(group.round); at != last;) {
    const round_number number = at->first;
    const auto was_told = [&](const agent& each) {
      // A node that has ended its workers and joins again does not mention them.
      const daemon* const here = world_.daemon_of(group.told_by);
      if (is_old_copy && !here->was_brought(each.session(), group.instance)) return false;
      const auto told = each.told(group.instance).rounds;
      return std::any_of(told.begin(), told.end(), [&](const auto& one) {
        return one.first < group.told_by && one.second >= number;
      });
    };
    const daemon* const told_by = world_.daemon_of(group.told_by);
    const auto heard = [&] {
      return told_by == nullptr ? std::set<session_id>() : told_by->sessions_joined();
    };
    const auto lives = [&] {
      return std::any_of(live_.begin(), live_.end(), [&](const auto& each) {
        return each->alive > 0 && each->instance == group.instance && each->round == number;
      });
    };
    bool stays = is_known(group, at->second, heard, was_told);
    if (!stays && lives()) {
      stays = !is_old_copy;
      if (is_old_copy) ++overlaps_unknown_;
    }
    if (!stays) world_.forget_round(group.instance, number);
    at = stays ? std::next(at) : instance.rounds.erase(at);
  }
}

// A round that was complete, and in which no worker failed, cannot have been charged; the others
// may have been.
void checkers::check_rounds(const worker_group& group, instance_record& instance) {
  const auto here = instance.rounds.find(group.round);
  if (std::next(here) != instance.rounds.end() && !group.owner->went_on_at())
    return violated(group, "rounds: a round started after a later one");
  if (here == instance.rounds.begin()) {
    if (group.round == 1 && group.restarts_used != 0)
      violated(group, "rounds: restarts charged before the first round");
    return;
  }
  const auto earlier = std::prev(here);
  const round_record& before = earlier->second;
  const auto was_told = [&](const agent& each) {
    return each.told(group.instance).restarts_used >= before.restarts_used;
  };
  // A node that joined while the order was on its way could not tell the daemon in time.
  const auto heard = [&] { return instance.heard_at_order[{group.told_by, group.round}]; };
  if (group.restarts_used < before.restarts_used && is_known(group, before, heard, was_told))
    return violated(group, "rounds: restarts_used fell");
  std::uint64_t chargeable = group.round - earlier->first - 1;
  if (before.may_be_charged || !before.was_full) ++chargeable;
  if (group.restarts_used > before.restarts_used + chargeable)
    violated(group, "rounds: more was charged than rounds failed");
}

// A daemon learns late that workers run, and that one has failed, so what counts is what it has
// ordered, by its own clock.
void checkers::check_budget(const worker_group& group, instance_record& instance) {
  const run_settings& settings = world_.settings();
  const duration window = settings.timing.restart_window;
  for (const auto& [number, round] : instance.rounds) {
    if (window == 0ms || number >= group.round) continue;
    const duration ran = round.stopped.value_or(world_.now()) - round.began;
    if (ran + ran / 40 < window) continue;
    instance.refilled_at = std::max(instance.refilled_at, round.restarts_used);
  }
  if (group.restarts_used > std::uint64_t{instance.refilled_at} + settings.restarts_max)
    violated(group, "budget: restart " + std::to_string(group.restarts_used) + " with " +
                        std::to_string(settings.restarts_max) +
                        " allowed, counted anew at most from " +
                        std::to_string(instance.refilled_at));
}

void checkers::group_started(const std::shared_ptr<worker_group>& group) {
  // Done only now and then, because ten thousand groups may start in one round.
  if (++started_since_sweep_ > live_.size() / 4) forget_dead();
  instance_record& instance = instances_[group->instance];
  if (!instance.job) instance.job = group->owner->job;
  if (*instance.job != group->owner->job)
    return violated(*group, "jobs: workers of " + group->owner->job + " in what " + *instance.job +
                                " had opened");
  if (instance.closed && instance.closed_by == group->told_by && !group->owner->went_on_at())
    return violated(*group, "closed: workers started in a closed instance");
  if (instance.told_success && !group->owner->went_on_at())
    return violated(*group, "journal: workers started in an instance that is over and well");
  if (instance.order == 0) {
    instance.order = ++instances_begun_;
    instance.begun_by = group->told_by;
    const daemon* const teller = world_.daemon_of(group->told_by);
    for (const auto& [id, other] : instances_)
      if (teller != nullptr && !teller->knew_of(id, group->instance)) instance.unknown.insert(id);
  }
  check_budget(*group, instance);
  forget_unknown_rounds(*group, instance);
  const auto [here, first] = instance.rounds.try_emplace(group->round);
  if (first) {
    ++rounds_started_;
    here->second.may_be_charged = instance.start_failed.contains(group->round);
  }
  check_ranks(*group, here->second, first);
  if (first) take_for_dead(*group, instance);
  check_rounds(*group, instance);
  check_success(*group, instance);
  check_overlap(group);
  live_.push_back(group);
  if (here->second.group_ranks.size() == group->assignment.group_world_size)
    here->second.was_full = true;
}

void checkers::worker_failed(const worker_group& group) {
  instances_[group.instance].rounds[group.round].may_be_charged = true;
}

void checkers::start_failed(instance_id instance, round_number round) {
  instances_[instance].start_failed.insert(round);
  const auto found = instances_[instance].rounds.find(round);
  if (found != instances_[instance].rounds.end()) found->second.may_be_charged = true;
}

void checkers::run_closed(const daemon& by, const core::run_view& view) {
  instance_record& instance = instances_[view.instance];
  const int exit_code = view.exit_code.value_or(-1);
  instance.exit_codes.insert(exit_code);
  world_.trace([&] { return "closed with " + std::to_string(exit_code) + ": " + view.why; });
  if (std::exchange(instance.closed, true)) return;
  instance.closed_by = by.index;
  instance.faults_at_close = world_.faults();
  instance.present = by.sessions_joined();
}

// All agents that were present leave with the same code, as long as nothing broke after the close
// and no person has asked one of them to leave.
void checkers::agent_left(const agent& who) {
  if (who.group && who.group->alive > 0 && !who.group->only_unkillable())
    return violated(*who.group, "closed: an agent left while its workers live");
  if (who.asked_to_leave) return;
  if (world_.strict().success_ends && who.group && who.left()->exit_code != 0) {
    const auto& rounds = instances_[who.group->instance].rounds;
    const auto here = rounds.find(who.group->round);
    const bool has_succeeded = here != rounds.end() && here->second.succeeded_all();
    if (has_succeeded && is_unknown_to(who.told_by(), who.group->instance)) {
      ++overlaps_unknown_;
    } else if (has_succeeded && who.hears_of_the_end()) {
      return violated(*who.group, "success: an agent left with " +
                                      std::to_string(who.left()->exit_code) +
                                      " after all had succeeded");
    }
  }
  // An agent that was told late of the end of its instance may also be present at the end of the
  // next.
  const instance_record* other = nullptr;
  for (const auto& [id, instance] : instances_) {
    if (!instance.closed || !instance.present.contains(who.session())) continue;
    if (instance.exit_codes.contains(who.left()->exit_code)) return;
    if (instance.faults_at_close != world_.faults() || world_.faults_active()) continue;
    if (!world_.restart_checks().was_refused(who.session())) other = &instance;
  }
  if (other == nullptr) return;
  world_.violated("closed: " + who.greeting().node + " left with " +
                  std::to_string(who.left()->exit_code) + ", the run with " +
                  std::to_string(*other->exit_codes.begin()));
}

void checkers::queue_grew(const connection& over, int end) {
  const auto& queue = over.ends[static_cast<std::size_t>(end)].outbox;
  std::map<int, int> kinds;
  for (const parcel& each : queue) {
    const int kind = replaceable_kind(*each.content);
    if (++kinds[kind] > (kind == 0 ? 3 : 1))
      return world_.violated("queue: more than one state waits for a peer");
  }
}

bool checkers::full(instance_id instance, round_number round) const {
  std::uint32_t groups = 0;
  std::uint32_t wanted = 0;
  for (const auto& each : live_) {
    if (each->instance != instance || each->round != round || !each->all_executed) continue;
    if (each->alive != each->workers.size()) continue;
    ++groups;
    wanted = each->assignment.group_world_size;
  }
  return wanted != 0 && groups == wanted;
}

bool checkers::any_full(std::uint32_t nodes_min, const std::string& run_id) const {
  std::map<std::pair<instance_id, round_number>, std::uint32_t> groups;
  for (const auto& each : live_) {
    if (!each->all_executed || each->alive != each->workers.size()) continue;
    if (each->assignment.group_world_size < nodes_min || each->run_id != run_id) continue;
    if (++groups[{each->instance, each->round}] == each->assignment.group_world_size) return true;
  }
  return false;
}

bool checkers::ended(instance_id instance) const {
  const auto found = instances_.find(instance);
  return found != instances_.end() && found->second.closed;
}

}  // namespace ddprun::simulation
