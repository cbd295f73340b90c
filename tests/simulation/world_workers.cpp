#include "tests/simulation/world.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace ddprun::simulation {

using namespace std::chrono_literals;

// Workers do nothing while their host stands still, and end with it.
void world::on_host(host& which, duration delay, std::function<void()> what) {
  host* const where = &which;
  time_.after(delay, [=, boot = which.boots, what = std::move(what)] {
    if (!where->powered || where->boots != boot) return;
    if (where->standing_still) {
      where->deferred.push_back(what);
      return;
    }
    what();
  });
}

void world::start_workers(agent& by, const core::start_workers& effect) {
  auto group = std::make_shared<worker_group>();
  group->id = ++groups_;
  group->owner = &by;
  group->host = by.where().id;
  group->boot = by.where().boots;
  group->session = by.session();
  group->run_id = by.greeting().run_id;
  group->told_by = by.told_by();
  group->instance = effect.instance;
  group->round = effect.round;
  group->assignment = effect.assignment;
  group->restarts_used = effect.restarts_used;
  group->started = now();
  group->workers.resize(by.greeting().worker_count);
  group->alive = by.greeting().worker_count;
  trace([&] {
    return by.greeting().node + " starts workers of round " + std::to_string(group->round);
  });
  if (by.group && by.group->alive > 0 && !by.group->only_unkillable())
    violated("overlap: " + by.greeting().node + " starts workers beside its own older ones");
  by.group = group;
  checkers_.group_started(group);
  restart_checkers_.group_started(*group);
  if (starts_to_fail_.erase(by.where().id) == 1) {
    checkers_.worker_failed(*group);
    end_worker(*group, 0, false, cause_class::start, 2);
  }
  duration taken = random_.between(200us, habits().start_most);
  if (const auto stall = starts_to_stall_.find(group->host); stall != starts_to_stall_.end()) {
    taken = std::max(taken, stall->second.first);
    if (stall->second.second) make_unkillable(*group, taken);
    time_.after(taken, [this] { note_trouble(); });
    note_fault();
    trace([&] { return by.where().name + ": an exec stalls for " + ddprun::to_text(taken); });
    starts_to_stall_.erase(stall);
  }
  on_host(by.where(), taken, [=, this] {
    if (group->alive != group->workers.size()) return;
    group->all_executed = true;
    group->owner->post([=] { group->owner->step(core::workers_started{group->round}); });
    if (finishing_) succeed_if_complete(group->instance, group->round);
  });
}

// Some failures have the same text except for a number.
std::string world::words_of_failure() {
  const std::string number = std::to_string(words_.below(100'000));
  switch (words_.below(4)) {
    case 0:
      return "NaN at " + number;
    case 1:
      return "stuck " + number;
    default:
      return "worker ended";
  }
}

void world::end_worker(worker_group& group, std::size_t index, bool success, cause_class kind,
                       int code, bool is_secondary) {
  worker& ended = group.workers[index];
  if (!ended.alive) return;
  ended.alive = false;
  --group.alive;
  if (success) ++group.succeeded;
  trace([&] {
    return group.owner->greeting().node + " worker " + std::to_string(index) + " of round " +
           std::to_string(group.round) + " ends: " + std::string(to_string(kind)) + " " +
           std::to_string(code);
  });
  core::worker_ended event;
  event.round = group.round;
  event.local_rank = static_cast<std::uint32_t>(index);
  event.success = success;
  event.cause.kind = kind;
  event.cause.code = code;
  event.cause.is_secondary = is_secondary;
  event.cause.local_rank = event.local_rank;
  event.cause.process = static_cast<std::int64_t>(1000 * group.id + index);
  event.cause.text = success ? "worker ended" : words_of_failure();
  if (!success && !ended.killed && !ended.asked_to_stop)
    restart_checkers_.worker_failed(group, event.cause);
  agent* const owner = group.owner;
  host& where = host_at(group.host);
  // The agent notices the death at once, and reports it when it has read the last output.
  on_host(where, random_.between(50us, 1ms), [=, this, &where] {
    owner->post([=, this, &where] {
      const time_point noticed = owner->local_now();
      on_host(where, random_.between(50us, 20ms), [=] {
        owner->post([=] {
          core::worker_ended told = event;
          told.cause.age = owner->local_now() - noticed;
          owner->step(told);
        });
      });
    });
  });
}

void world::fail_worker(worker_group& group, std::size_t index, cause_class kind, int code,
                        bool is_secondary) {
  if (index >= group.workers.size() || !group.workers[index].alive) return;
  if (group.workers[index].killed || host_at(group.host).standing_still) return;
  note_fault();
  restart_checkers_.failure_made();
  if (!group.workers[index].asked_to_stop) checkers_.worker_failed(group);
  end_worker(group, index, false, kind, code, is_secondary);
  others_fail_too(group);
}

// A collective that has lost a rank soon fails on the others: one cause, many reports.
void world::others_fail_too(const worker_group& group) {
  if (!collateral_.insert({group.instance, group.round}).second) return;
  for (const auto& other : checkers_.live()) {
    if (other->instance != group.instance || other->round != group.round) continue;
    for (std::size_t index = 0; index < other->workers.size(); ++index) {
      if (!random_.chance(habits().collateral_percent)) continue;
      const int code = random_.chance(50) ? 1 : 6;
      const bool is_secondary = effects_.chance(habits().effect_percent);
      on_host(host_at(other->host),
              random_.between(habits().collateral_least, habits().collateral_most), [=, this] {
                if (!other->workers[index].alive || other->workers[index].unkillable) return;
                note_trouble();
                if (!other->workers[index].asked_to_stop) checkers_.worker_failed(*other);
                end_worker(*other, index, false,
                           code == 1 ? cause_class::exit : cause_class::signal, code, is_secondary);
              });
    }
  }
}

void world::succeed_node(worker_group& group) {
  for (std::size_t index = 0; index < group.workers.size(); ++index) {
    const worker& each = group.workers[index];
    if (each.alive && !each.killed && !each.unkillable && !host_at(group.host).standing_still)
      end_worker(group, index, true, cause_class::exit, 0);
  }
}

void world::make_unkillable(worker_group& group, duration time) {
  if (group.alive == 0) return;
  note_fault();
  for (std::size_t index = 0; index < group.workers.size(); ++index) {
    if (!group.workers[index].alive) continue;
    group.workers[index].unkillable = true;
    if (time == duration::max()) {
      group.owner->is_stuck = true;
      return;
    }
    auto* const where = &host_at(group.host);
    const auto stuck = group.shared_from_this();
    on_host(*where, time, [=, this] {
      note_trouble();
      worker& free = stuck->workers[index];
      free.unkillable = false;
      if (free.is_done && !free.killed) end_worker(*stuck, index, true, cause_class::exit, 0);
      if (stuck->workers[index].killed) end_worker(*stuck, index, false, cause_class::signal, 9);
    });
    return;  // one is enough
  }
}

void world::kill_one(const std::shared_ptr<worker_group>& group, std::size_t index) {
  worker& target = group->workers[index];
  if (!target.alive || target.killed) return;
  target.killed = true;
  if (target.unkillable) return;
  duration taken = random_.between(50us, 5ms);
  const bool slow = habits().slow_kill_percent != 0 && random_.chance(habits().slow_kill_percent);
  if (slow) {
    taken = random_.between(5ms, habits().slow_kill_most);
    target.unkillable = true;
    note_trouble();
  }
  on_host(host_at(group->host), taken, [=, this] {
    if (slow) group->workers[index].unkillable = false, note_trouble();
    if (!group->workers[index].unkillable) end_worker(*group, index, false, cause_class::signal, 9);
  });
}

void world::kill_workers(agent& by, round_number round_most) {
  const auto& group = by.group;
  if (!group || group->round > round_most || group->alive == 0) return;
  if (by.alive()) checkers_.workers_taken_down(*group);
  trace([&] { return "workers of " + by.greeting().node + " are killed"; });
  if (by.alive() && on_killed_by_agent) on_killed_by_agent(*group);
  for (std::size_t index = 0; index < group->workers.size(); ++index)
    kill_one(group, index);
  others_fail_too(*group);
}

void world::guardian_strikes(agent& of) {
  trace([&] { return "the guardian of " + of.greeting().node + " strikes"; });
  note_trouble();
  kill_workers(of, ~0ULL);
}

void world::ask_workers(agent& by, round_number round, int number) {
  const auto group = by.group;
  if (!group || group->round != round || group->alive == 0) return;
  checkers_.workers_taken_down(*group);
  if (by.alive() && on_killed_by_agent) on_killed_by_agent(*group);
  for (std::size_t index = 0; index < group->workers.size(); ++index) {
    group->workers[index].asked_to_stop = true;
    if (random_.chance(habits().ignores_term_percent)) continue;
    const bool success = random_.chance(20);
    on_host(host_at(group->host), random_.between(100us, habits().stop_most), [=, this] {
      if (group->workers[index].unkillable) return;
      end_worker(*group, index, success, success ? cause_class::exit : cause_class::signal,
                 success ? 0 : number);
    });
  }
}

void world::signal_group(agent& whom, int number) {
  note_fault();
  whom.asked_to_leave = true;
  trace([&] {
    return "signal " + std::to_string(number) + " to the cgroup of " + whom.greeting().node;
  });
  agent* const target = &whom;
  time_.after(random_.between(0ms, 5ms),
              [=] { target->post([=] { target->step(core::signal_received{number}); }); });
  const auto group = whom.group;
  for (std::size_t index = 0; group && index < group->workers.size(); ++index) {
    if (random_.chance(habits().ignores_term_percent)) continue;
    on_host(host_at(group->host), random_.between(0ms, 5ms), [=, this] {
      if (group->workers[index].unkillable) return;
      end_worker(*group, index, false, cause_class::signal, number);
    });
  }
}

void world::finish_training() {
  finishing_ = true;
  note_trouble();
  trace([] { return "training comes to its end"; });
  const auto live = checkers_.live();
  for (const auto& group : live)
    succeed_if_complete(group->instance, group->round);
}

// Ranks end together: all workers of a complete round end with 0 within a second, unless something
// else happens to them first.
void world::succeed_if_complete(instance_id instance, round_number round) {
  if (finished_.contains({instance, round}) || collateral_.contains({instance, round})) return;
  if (!checkers_.full(instance, round)) return;
  finished_.insert({instance, round});
  for (const auto& group : checkers_.live()) {
    if (group->instance != instance || group->round != round) continue;
    for (std::size_t index = 0; index < group->workers.size(); ++index) {
      on_host(host_at(group->host), random_.between(300ms, 1s), [=, this] {
        worker& each = group->workers[index];
        if (each.killed || each.asked_to_stop || collateral_.contains({instance, round})) return;
        each.is_done = true;
        if (!each.unkillable) end_worker(*group, index, true, cause_class::exit, 0);
      });
    }
  }
}

void world::agent_exits(agent& who) {
  if (!who.alive()) return;
  restart_checkers_.agent_left(who);
  checkers_.agent_left(who);
  note_trouble();
  who.die();
  network_.process_died(who, false);
  if (who.hosted != nullptr) who.hosted->linger(who.greeting().settings.timing.linger);
}

void world::daemon_exits(daemon& which) {
  if (!which.alive()) return;
  trace([&] { return "daemon " + std::to_string(which.index) + " ends"; });
  which.close_journal();
  which.die();
  network_.process_died(which, false);
}

}  // namespace ddprun::simulation
