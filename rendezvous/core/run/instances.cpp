// How an instance ends, for all nodes or for one (DESIGN.md, rule 9, drain and operator), and what
// may still live of older instances.
//
// The first round of an instance starts only when no worker of an older one can live, as far as
// this daemon knows or has heard:
//
//   a node that was told to end its workers    its own report, its goodbye, or its guardian's
//   report a member that could not be reached when    what a stop would have waited for (stop.hpp)
//   its instance was closed
//   a node that came back to a daemon which    the orphan limit: it is not known which leases it
//   does not know its instance, and went       gave, and which ones kept it alive
//
// Once this instance has a round, nodes that come back from an older one are fenced.
#include "rendezvous/core/run/instances.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/name_text.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/core/run/run_state.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun::core {

bool cannot_start(const status& said) {
  return said.round == 0 && said.draining && said.signal == 0 && !said.causes.empty() &&
         said.causes.front().kind == cause_class::start;
}

int code_of_drain(const status& said) {
  return exit_code_of_signal(said.signal == 0 ? SIGTERM : said.signal);
}

// A node that was away when its run was closed may say that all its workers had succeeded. If every
// member says so, nothing has failed, and there was nothing to stop.
void learn_of_success(const run_options& options, const entered_phase& phase,
                      current_instance& current, closed_instances& closed, outbox& out,
                      closed_instance& record, const status& said) {
  const bool is_news = record.exit_code != 0 && said.assignment && has_succeeded(said);
  if (!is_news || !record.left.complete_success(said)) return;
  record.exit_code = 0;
  record.why.reset();
  record.text = "every worker had succeeded when this run was closed (" + record.text + ")";
  closed.renew_past();
  out.note(note_level::info,
           "run " + options.run_id + " has exit code 0 after all: " + record.text);
  if (phase != run_phase::closed || &record != &closed.newest()) return;
  current.last_cause.reset();
  current.last_end = record.text;
}

// The same for a round that was given up, as long as no other has been chosen: no round repeats
// work that is done.
bool completes_success(const entered_phase& phase, current_instance& current,
                       const round_numbers& rounds, const node& who) {
  const status& said = who.state;
  const bool chooses = phase == run_phase::gathering || phase == run_phase::settling;
  const bool is_of_it = said.instance == current.id && said.round == rounds.newest() &&
                        current.left_behind.round == rounds.newest() && said.assignment &&
                        has_succeeded(said);
  return chooses && is_of_it && current.left_behind.complete_success(said);
}

void run::state::tell_closed(node& who, closed_instance& record) {
  learn_of_success(options, phase, current, closed, out, record, who.state);
  who.node_state = node_state::closing;
  recount(counts(), who);
  groups.leave(who);
  // From now on its own messages tell whether its workers live.
  closed.take_out(who.greeting.session, record.instance, false, real_now);
  ddprun::desired value;
  value.epoch = out.epoch();
  value.instance = record.instance;
  value.round = std::max(record.round, who.state.round);
  out.raise_seq(who.state.desired_seq);
  value.seq = out.next_seq();
  value.phase = desired_phase::close;
  value.restarts_used = record.restarts_used;
  value.restarts_forgiven = record.restarts_forgiven;
  value.exit_code = record.exit_code;
  value.root_cause = record.why;
  value.text = record.text;
  order_close(who, finished(std::move(value)));
}

// Tells all nodes of the instance; nodes that are away are told when they come back.
void run::state::close(int exit_code, std::optional<cause> why, std::string text) {
  DDPRUN_ASSERT(current.is_decided());
  out.note(exit_code == 0 ? note_level::info : note_level::error,
           "run " + options.run_id + " is closed with exit code " + std::to_string(exit_code) +
               ": " + text);
  // Without a round there is nothing to report.
  if (!memberships.empty()) {
    if (phase != run_phase::stopping) current.lasted = lasted_so_far(phase, age, now);
    add_report(current, rounds, memberships, dead, why);
  }
  closed_instance record;
  for (const membership& one : memberships) {
    // Members that are away are told when they come back. A dead one never does.
    if (one.holder() == nullptr || one.liveness() == worker_liveness::dead) continue;
    const node& member = *one.holder();
    if (member.connection == 0) record.absent.insert(member.greeting.session);
  }
  leave_round();
  current.last_cause = why;
  current.last_end = text;
  record.instance = current.id;
  record.exit_code = exit_code;
  record.why = std::move(why);
  record.text = std::move(text);
  record.round = rounds.highest();
  record.restarts_used = current.budget.restarts_used();
  record.restarts_forgiven = current.budget.restarts_forgiven();
  record.closed_at = real_now;
  record.job = current.job;
  record.left = std::move(current.left_behind);
  current.left_behind = {};
  ddprun::desired value = base_desired(current, rounds, out, desired_phase::close);
  value.round = record.round;
  value.exit_code = exit_code;
  value.root_cause = record.why;
  value.text = record.text;
  const message_pointer message = finished(std::move(value));
  tell_report(current, nodes, out, true, exit_code, why_it_ends(record.why, record.text));
  enter(phase, waiting, now, run_phase::closed);
  settle = {};
  // Forgotten after the loop, because that changes `nodes`.
  std::vector<node*> away;
  for (const auto& [order, who] : nodes) {
    if (who->node_state == node_state::closing || who->node_state == node_state::leaving) continue;
    record.absent.insert(who->greeting.session);
    // A fenced node kills its workers first; it is told when it joins again.
    if (who->node_state == node_state::fenced) {
      groups.leave(*who);
      continue;
    }
    who->node_state = node_state::closing;
    recount(counts(), *who);
    groups.leave(*who);
    if (who->connection == 0) {
      away.push_back(who.get());
    } else {
      order_close(*who, message);
    }
  }
  for (node* const who : away)
    forget(counts(), current, claims, out, *who);
  groups.clear();
  persisted.drop();
  closed.add(std::move(record));
}

void run::state::open_instance(instance_id fresh, const std::optional<started_job>& by) {
  const std::optional<started_job> before =
      persisted.is_there() ? persisted.record()->job : current.job;
  const std::optional<started_job>& job = options.opened_by ? options.opened_by : by;
  if (!may_be_same_job(options, before, job)) leave_other_job(stale, closed, rounds, out, before);
  current = current_instance{.id = fresh, .opened_at = real_now, .job = job};
  claims.begin_instance();
  persisted.drop();
  rounds.begin_instance(options.first_round - 1);
  enter(phase, waiting, now, run_phase::gathering);
}

// The node was asked to leave. What it did in a round that is over, or that went well, stays done.
void run::state::drain(node& who) {
  if (who.node_state != node_state::here) return;
  // Each heartbeat repeats the request, but it counts as a loss only once.
  const bool is_new = !std::exchange(who.drain_seen, true);
  if (who.membership == nullptr && cannot_start(who.state))
    return dismiss_unable(counts(), current, rounds, real_now, out, who);
  cause why = cause_of(rounds, who, cause_class::drain);
  why.code = who.state.signal;
  remember_departure(phase, current, waiting, real_now, who, why);
  if (phase == run_phase::stopping || phase == run_phase::settling) {
    // Decided when the next round is chosen, because all nodes may have been asked to leave.
    if (is_new && (who.membership != nullptr || settle.is_pausing(now)))
      remember_loss(phase, settle, now, timing_of(current, groups));
    return;
  }
  const bool works =
      who.membership != nullptr && who.membership->phase() != member_phase::succeeded;
  if (works) {
    causes.add(why, real_now);
    remember_loss(phase, settle, now, timing_of(current, groups));
    const std::optional<cause> first = causes.get();
    end_round(&*first, timing_of(current, groups).drain_grace, describe(*first),
              {.is_ordinary = true});
    return;
  }
  // A leader whose workers are done stays, and serves the store until the others are done, too.
  if (who.leads()) return;
  const bool goes_on_without =
      who.membership != nullptr || phase != run_phase::gathering || groups.here() != 0;
  // What is running here is not known yet, so no run can be closed: only this node leaves.
  if (!current.is_decided() || is_recovering(phase, claims)) {
    release(counts(), current, rounds, out, who, groups.here() != 0 ? 0 : code_of_drain(who.state));
  } else if (goes_on_without) {
    release(counts(), current, rounds, out, who, 0);
  } else {
    close(code_of_drain(who.state), current.last_cause, "every node was asked to leave");
  }
}

// The node leaves, and the run goes on.
void release(const headcount& counts, const current_instance& current, const round_numbers& rounds,
             outbox& out, node& who, int exit_code) {
  out.note(note_level::info, who.label() + " leaves, as it was asked to");
  who.node_state = node_state::leaving;
  recount(counts, who);
  counts.groups.leave(who);
  ddprun::desired value = base_desired(current, rounds, out, desired_phase::close);
  value.round = std::max(rounds.newest(), who.state.round);
  value.exit_code = exit_code;
  value.text = "this node was asked to leave; the run goes on without it";
  out.want(who, finished(std::move(value)));
}

void run::state::stop_by_operator(cause why) {
  // Until it is known what is running here, there is nothing to stop.
  if (current.operator_stop || phase == run_phase::closed || !current.is_decided() ||
      is_recovering(phase, claims))
    return;
  current.operator_stop = std::move(why);
  switch (phase) {
    case run_phase::gathering:
    case run_phase::settling:
      close(exit_code_of(*current.operator_stop), current.operator_stop,
            describe(*current.operator_stop));
      return;
    case run_phase::preparing:
    case run_phase::running:
      causes.add(*current.operator_stop, real_now);
      end_round(&*current.operator_stop, timing_of(current, groups).drain_grace,
                describe(*current.operator_stop), {.is_ordinary = true});
      return;
    // end_of_stop() closes the run.
    case run_phase::stopping:
    case run_phase::closed:
      return;
  }
}

bool leftovers::complete_success(const status& said) {
  DDPRUN_ASSERT(said.assignment);
  if (said.round < round) return false;
  // A newer round than was known: what was counted was of an older one.
  if (said.round > round) succeeded.clear();
  round = said.round;
  succeeded.insert(said.assignment->group_rank);
  return succeeded.size() >= said.assignment->group_world_size;
}

void leftovers::let_go(time_point now) {
  if (std::exchange(is_held, false)) until = std::min(until, now + let_go_limit);
}

time_point leftovers::living_until() const {
  const bool are_all_back = members.size() != 0 && members.missing() == 0;
  return are_all_back ? time_point() : until;
}

void closed_instances::add(closed_instance newest) {
  closed_.push_front(std::move(newest));
  if (closed_.size() > closed_instances_max) closed_.pop_back();
  renew_past();
}

void closed_instances::forget_old(time_point now) {
  if (closed_.remove_if([now](const closed_instance& one) { return one.is_old(now); }) != 0) {
    renew_past();
  }
}

void closed_instances::renew_past() {
  std::vector<past_end> ends;
  for (const closed_instance& one : closed_) {
    // One more than a record holds, so that the list without the newest is as long.
    if (ends.size() > past_ends_max) break;
    ends.push_back({one.instance,
                    {one.exit_code, one.text},
                    one.round,
                    one.restarts_used,
                    one.restarts_forgiven,
                    one.job});
  }
  std::vector<past_end> before_newest(ends.begin() + (ends.empty() ? 0 : 1), ends.end());
  past_before_newest_ = shared_list<past_end>(std::move(before_newest));
  if (ends.size() > past_ends_max) ends.pop_back();
  past_ = shared_list<past_end>(std::move(ends));
}

const closed_instance& closed_instances::newest() const {
  DDPRUN_ASSERT(!closed_.empty());
  return closed_.front();
}

bool closed_instances::are_all_old(time_point now) const {
  return std::all_of(closed_.begin(), closed_.end(),
                     [now](const closed_instance& one) { return one.is_old(now); });
}

std::size_t closed_instances::absent_count() const {
  std::size_t count = 0;
  for (const closed_instance& one : closed_)
    count += one.absent.size();
  return count;
}

closed_instance* closed_instances::of(const hello& greeting, time_point now) {
  const instance_id said = greeting.state.instance;
  for (closed_instance& one : closed_) {
    if (one.is_old(now)) continue;
    if (said == one.instance || (said == 0 && one.absent.contains(greeting.session))) return &one;
  }
  return nullptr;
}

void closed_instances::said_goodbye(const session_id& session) {
  for (closed_instance& one : closed_)
    one.absent.erase(session);
}

void closed_instances::take_out(const session_id& session, instance_id instance, bool has_let_go,
                                time_point now) {
  for (closed_instance& one : closed_) {
    leftovers& left = one.left;
    const bool was_left = left.sessions.erase(session) != 0;
    // The session has nothing to do with this instance.
    if (!was_left && one.instance != instance && !one.absent.contains(session)) continue;
    if (has_let_go) left.let_go(now);
    if (left.sessions.empty() && left.unknown == 0) left.until = {};
  }
}

bool closed_instances::has_let_go(instance_id instance) const {
  return std::any_of(closed_.begin(), closed_.end(), [instance](const closed_instance& one) {
    return one.instance == instance && !one.left.is_held;
  });
}

void closed_instances::forget_living() {
  for (closed_instance& one : closed_)
    one.left.until = {};
}

time_point closed_instances::living_until() const {
  time_point until{};
  for (const closed_instance& one : closed_)
    until = std::max(until, one.left.living_until());
  return until;
}

void closed_instances::count(const std::string& name, bool is_here) {
  for (closed_instance& one : closed_)
    one.left.members.count(name, is_here);
}

const leftovers* closed_instances::sole_living(time_point now) const {
  const leftovers* found = nullptr;
  for (const closed_instance& one : closed_) {
    if (now >= one.left.living_until()) continue;
    if (found != nullptr) return nullptr;
    found = &one.left;
  }
  return found;
}

bool knows_of_round(const status& said) {
  return said.instance != 0 && (said.round != 0 || said.round_told != 0);
}

void watch_ending(stale_workers& stale, wait_message& waiting, machine_time now, node& who) {
  const bool was_told =
      who.node_state == node_state::fenced || who.node_state == node_state::closing;
  const bool is_ending = was_told && has_living_workers(who.state);
  const bool is_news = is_ending ? stale.add_ending(who.order, now) : stale.drop_ending(who.order);
  if (is_news) waiting.change();
}

// A node that answers, but does not end its workers, is broken. Without acks it isolates itself,
// which kills them.
void run::state::lose_ending() {
  // Once this instance has a round, nothing waits for older workers.
  if (current.settings) return;
  std::vector<node*> broken;
  for (const auto& [order, since] : stale.ending()) {
    node& who = nodes.at(order);
    if (now - since >= stop_patience_of(timing_of(current, who), duration::zero()))
      broken.push_back(&who);
  }
  for (node* const who : broken) {
    out.note(note_level::error,
             who->label() + " was told to end its workers and has not done so: it counts as lost");
    lose(*who, false, "does not end its workers");
  }
}

// A node of an older instance has gone without saying that its workers are gone.
void remember_lost(const entered_phase& phase, const current_instance& current,
                   stale_workers& stale, const closed_instances& closed, const machine_clock& clock,
                   const node& who, bool proof) {
  if (current.settings && phase != run_phase::closed) return;
  const bool is_claimant = who.node_state == node_state::claimant;
  const bool was_told =
      who.node_state == node_state::fenced || who.node_state == node_state::closing;
  const bool matters =
      (is_claimant && knows_of_round(who.state)) || (was_told && has_living_workers(who.state));
  if (!matters) return;
  const timers& timing = timing_of(current, who);
  const bool was_alone = who.state.assignment && who.state.assignment->group_world_size <= 1;
  // As long as no member has let go of its tethers, members may keep each other alive until
  // orphan_limit. Once one has, the others follow within two isolation limits.
  time_point until = clock.real(who.heard) + timing.orphan_limit;
  if (who.node_state == node_state::closing && closed.has_let_go(who.state.instance)) {
    until = clock.real(who.heard) + with_margin(2 * timing.isolation_limit);
  }
  if (proof) {
    // Its own workers are gone, and it no longer keeps others alive by its tether. If it was alone
    // there are no others; for those of a closed instance closed_instance::left has the time.
    if (was_alone || who.node_state == node_state::closing) return;
    until = clock.real_now() + with_margin(2 * timing.isolation_limit);
  }
  stale.raise_lost_until(until);
}

// Notes what a round leaves behind if some members cannot be reached, as after an operator's stop,
// which does not wait for them.
void remember_leftovers(current_instance& current, const round_numbers& rounds,
                        const round_memberships& memberships, const round_stop& stop,
                        const timers& timing, const machine_clock& clock) {
  if (memberships.empty()) return;
  current.left_behind = {};
  current.left_behind.round = rounds.newest();
  for (const membership& one : memberships) {
    if (one.has_succeeded()) current.left_behind.succeeded.insert(one.group_rank());
  }
  const std::optional<machine_time> until = fence_until(memberships, stop, timing);
  if (!until || clock.now() >= *until) return;
  current.left_behind.until = clock.real(*until);
  current.left_behind.is_held = !stop.has_let_go();
  current.left_behind.let_go_limit = with_margin(2 * timing.isolation_limit);
  current.left_behind.unknown = memberships.unknown();
  for (const membership& one : memberships) {
    if (one.holder() == nullptr || !one.is_unreachable()) continue;
    current.left_behind.sessions.insert(one.holder()->greeting.session);
  }
}

time_point stale_until(const stale_workers& stale, const closed_instances& closed,
                       const persisted_run& persisted, const machine_clock& clock) {
  const time_point until = std::max(stale.lost_until(), closed.living_until());
  return std::max(until, persisted_living_until(clock, persisted).value_or(until));
}

bool stale_may_live(const current_instance& current, const stale_workers& stale,
                    const closed_instances& closed, const persisted_run& persisted,
                    const machine_clock& clock) {
  return !current.settings && (!stale.ending().empty() ||
                               clock.real_now() < stale_until(stale, closed, persisted, clock));
}

timer_moment stale_deadline(const current_instance& current, const stale_workers& stale,
                            const closed_instances& closed, const persisted_run& persisted,
                            const roster& nodes, const machine_clock& clock) {
  if (!stale_may_live(current, stale, closed, persisted, clock)) return std::nullopt;
  std::optional<machine_time> next;
  for (const auto& [order, since] : stale.ending()) {
    const machine_time due =
        since + stop_patience_of(timing_of(current, nodes.at(order)), duration::zero());
    if (!next || due < *next) next = due;
  }
  // As long as a node ends its workers, only its word or its patience ends the wait.
  if (next) return next;
  return stale_until(stale, closed, persisted, clock);
}

std::string stale_reason(const current_instance& current, const stale_workers& stale,
                         const closed_instances& closed, const persisted_run& persisted,
                         const roster& nodes, const machine_clock& clock) {
  if (!stale_may_live(current, stale, closed, persisted, clock)) return {};
  std::string who;
  if (!stale.ending().empty()) who = " of " + nodes.at(stale.ending().begin()->first).label();
  std::string text =
      "; waiting until the workers" + who + " from an earlier start of this run must have ended";
  const std::optional<machine_time> remembered = persisted.living_until();
  const leftovers* const known = sole_stale(stale, closed, clock);
  const members_by_name* missing = known == nullptr ? nullptr : &known->members;
  if (remembered && clock.now() < *remembered) missing = &persisted.members();
  if (missing == nullptr) return text;
  if (const std::vector<std::string> names = missing->missing_names(); !names.empty()) {
    text += ", or until " + text_of_names(names, missing->missing()) +
            (missing->missing() == 1 ? " is back" : " are back");
  }
  return text;
}

// The leftovers of the only closed instance that is waited for; null: others are waited for, too.
const leftovers* sole_stale(const stale_workers& stale, const closed_instances& closed,
                            const machine_clock& clock) {
  const bool others_may_live = !stale.ending().empty() || clock.real_now() < stale.lost_until();
  return others_may_live ? nullptr : closed.sole_living(clock.real_now());
}

bool stale_workers::add_ending(std::uint64_t order, machine_time now) {
  return ending_.try_emplace(order, now).second;
}

bool stale_workers::drop_ending(std::uint64_t order) {
  return ending_.erase(order) != 0;
}

void stale_workers::raise_lost_until(time_point until) {
  lost_until_ = std::max(lost_until_, until);
}

// Job identity: an instance, and what is left of one, belongs to the job that opened it.
//
// Nodes without --rdzv-id all have one run id, so two jobs may meet at an endpoint, one after the
// other. What the first has left (agents that dial on, a record) does not concern the second: it
// opens an instance of its own, and nodes of the first are told that the endpoint was taken. Nodes
// of one job may differ in arguments. So a node that comes with an instance is identified by what
// opened that instance, which it was told; a node without one is never refused for its job.

// The job of the current instance, or of the agent that holds this daemon; none: not known yet.
const std::optional<started_job>& job_here(const run_options& options, const entered_phase& phase,
                                           const current_instance& current) {
  return current.is_decided() && phase != run_phase::closed ? current.job : options.opened_by;
}

// The refusal of a node that comes with this instance of that job, because another job has taken
// the endpoint; empty: none has.
std::string place_taken_text(const run_options& options, const entered_phase& phase,
                             const current_instance& current, instance_id instance,
                             const std::optional<started_job>& job) {
  const bool is_from_elsewhere = instance != 0 && instance != current.id;
  if (!is_from_elsewhere || is_same_job(job_here(options, phase, current), job)) return {};
  return as_another(job_here(options, phase, current)) +
         " has taken this endpoint, so this job ends; to run both at once, give each "
         "its own --rdzv-id";
}

// A daemon that lives in an agent knows its job. A standalone daemon knows only what each node
// starts, and nodes of one job may differ in arguments. There one script name is enough to count as
// one job: waiting for workers of another job costs less than two rounds at once.
bool may_be_same_job(const run_options& options, const std::optional<started_job>& one,
                     const std::optional<started_job>& other) {
  if (is_same_job(one, other)) return true;
  return !options.opened_by && one->program == other->program;
}

// A standalone daemon compares the record with every node that has come.
bool is_record_of_another(const run_options& options, const persisted_run& persisted,
                          const roster& nodes) {
  const std::optional<started_job>& job = persisted.record()->job;
  if (options.opened_by) return !is_same_job(job, options.opened_by);
  return std::none_of(nodes.begin(), nodes.end(), [&](const auto& one) {
    return may_be_same_job(options, job, one.second->greeting.job);
  });
}

// Closes the current instance if it has lost all its nodes, and the newcomer is of another job.
void run::state::make_way_for(const hello& newcomer) {
  const bool is_deserted = current.is_decided() && phase == run_phase::gathering && nodes.empty();
  if (!is_deserted || newcomer.state.instance != 0) return;
  if (is_same_job(current.job, newcomer.job)) return;
  close(displaced_exit_code, current.last_cause,
        as_another(newcomer.job) + " has taken this endpoint");
}

// Of what the previous job has left, only workers whose node is here and ending them are waited
// for.
void leave_other_job(stale_workers& stale, closed_instances& closed, round_numbers& rounds,
                     outbox& out, const std::optional<started_job>& before) {
  out.note(note_level::info, "a new job begins: workers that " + as_another(before) +
                                 " may have left are not waited for");
  stale.drop_lost();
  closed.forget_living();
  rounds.drop_floor();
}

}  // namespace ddprun::core
