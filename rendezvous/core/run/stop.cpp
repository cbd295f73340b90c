// The stop of a round, from its order to what comes after it: DESIGN.md, rule 4; liveness, fencing,
// and when the next round may start (stop.hpp).
#include "rendezvous/core/run/stop.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/core/run/run_state.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {
namespace {

// The run's exit code if this failure ends it; 0: another round may follow. Another round may
// follow even if this is not 0: if a better cause (a lost node) comes while the round stops,
// workers that could have lived on are started again.
int foreseen_exit_code(const current_instance& current, time_point real_now, const cause& trigger) {
  if (trigger.is_secondary) return 0;
  const std::optional<run_end> end = end_beyond_budget(current, real_now, trigger);
  return end ? end->exit_code : 0;
}

// Whether a member has said, or is thought, not to have all of its ranks any more.
bool is_rank_lost(const round_memberships& memberships) {
  return std::any_of(memberships.begin(), memberships.end(), [](const membership& one) {
    return one.phase() == member_phase::failed || one.phase() == member_phase::lost ||
           one.is_away();
  });
}

}  // namespace

// Sends the stop, as one shared message, to all members that were told of the round.
void run::state::end_round(const cause* trigger, duration grace, std::string text, end_kind how) {
  DDPRUN_ASSERT(phase == run_phase::preparing || phase == run_phase::running);
  out.note(note_level::warning, "round " + std::to_string(rounds.newest()) + " ends: " + text);
  current.lasted = lasted_so_far(phase, age, now);
  end_age(current, age, now, timing_of(current, groups));
  enter(phase, waiting, now, run_phase::stopping);
  memberships.end_start();
  current.last_end = text;
  ddprun::desired value = base_desired(current, rounds, out, desired_phase::stop);
  value.grace = grace;
  if (trigger != nullptr && trigger->kind == cause_class::operator_stop) {
    value.signal = trigger->code;  // workers of all nodes get what the person has sent to one
  }
  if (trigger != nullptr && !how.is_free) {
    value.exit_code = foreseen_exit_code(current, real_now, *trigger);
  }
  value.is_unreported = trigger == nullptr || trigger->kind == cause_class::drain ||
                        trigger->kind == cause_class::operator_stop;
  value.is_ordinary = how.is_ordinary && !is_rank_lost(memberships);
  value.text = std::move(text);
  stop = round_stop(now, steps, stop_patience_of(timing_of(current, groups), grace), how.is_free,
                    finished(std::move(value)));
  for (membership& one : memberships) {
    if (one.holder() == nullptr) continue;
    node& member = *one.holder();
    const bool is_here = member.node_state == node_state::here;
    if (one.command() != command::none && is_here) out.want(member, stop.message());
    // A member that was told nothing has no workers of this round.
    const bool has_ended = one.command() == command::none || one.has_ended() ||
                           one.phase() == member_phase::stopped || !is_here;
    const bool succeeded_and_left =
        one.phase() == member_phase::succeeded && member.connection == 0;
    if (has_ended || succeeded_and_left) {
      mark_ended(one);
    } else if (one.is_away()) {
      mark_unreachable(one);
    }
  }
  // Waiting nodes are told why. Their answer shows that they are alive, and so candidates.
  for (const auto& [order, who] : nodes) {
    const bool waits = who->membership == nullptr || who->membership->command() == command::none;
    if (waits && is_candidate(nodes, *who)) tell_wait(*who);
  }
}

// A member's status while the round stops: that it has dropped its tethers, or that its workers are
// gone.
void run::state::on_stop_status(node& who) {
  const status& said = who.state;
  membership& own = *who.membership;
  const bool of_round = said.instance == current.id && said.round == rounds.newest();
  if (of_round) collect_causes(rounds, causes, real_now, who);
  // All members that were told of the round were told to stop it, so an older status tells nothing.
  const bool has_obeyed = said.desired_seq >= who.wanted_seq;
  static const std::vector<tether_age> none;
  const std::vector<tether_age>& acks = of_round ? said.tether_ages : none;
  switch (said.phase) {
    case member_phase::preparing:
    case member_phase::assigned:
    case member_phase::starting:
    case member_phase::running:
    case member_phase::lost:
      return;
    case member_phase::failed:
    case member_phase::stopping:
      if (of_round && has_obeyed) acknowledge(waiting, memberships, stop, now, own, acks);
      return;
    case member_phase::stopped:
      if (of_round) note_success(memberships, who);
      if (has_obeyed) acknowledge(waiting, memberships, stop, now, own, acks);
      if (of_round || has_obeyed) mark_ended(own);
      return;
    case member_phase::succeeded:
      if (of_round) note_success(memberships, who);
      [[fallthrough]];
    case member_phase::joined:
      // Either the stop overtook the assignment, or the member had finished before: no worker lives
      // there.
      if (!has_obeyed) return;
      acknowledge(waiting, memberships, stop, now, own);
      mark_ended(own);
      return;
  }
}

// A node that has acknowledged the stop asks its workers to end, kills them, and names those that
// it cannot kill, each in bounded time. If it still stops after all that, it is broken, and treated
// like a node whose workers cannot be killed. A node that has not acknowledged may keep others
// alive by its tether: it counts as lost, whatever it says, and gets no acks, so that it isolates
// itself while its fence runs.
timer_moment stop_overdue_at(const entered_phase& phase, const round_memberships& memberships,
                             const round_stop& stop) {
  if (phase != run_phase::stopping) return std::nullopt;
  if (memberships.are_all_ended_or_unreachable()) return std::nullopt;
  return stop.overdue_at();
}

void run::state::on_stop_overdue() {
  for (membership& one : memberships) {
    if (one.liveness() != worker_liveness::in_reach) continue;
    node& member = *one.holder();
    member.obedience = obedience::overdue;
    recount(counts(), member);
    const std::string after = to_text(stop.patience()) + " after it was told to";
    if (one.has_acknowledged()) {
      out.note(note_level::error, member.label() + " has not ended its workers " + after +
                                      ": the run goes on without it");
      mark_ended(one);
    } else {
      out.note(note_level::error, member.label() + " has not begun to stop its workers " + after +
                                      ": it counts as lost, and its heartbeats are not "
                                      "acknowledged until it does");
      memberships.set_unacked(one, true);
      member.obedience = obedience::ignores;
      mark_unreachable(one);
    }
  }
  stop.tell_late(now);
}

// Whether this status shows that the member has at least let go of the other members.
bool shows_stop(const current_instance& current, const node& member, const status& said) {
  // It has left the instance. A node that was never in it may still be about to read its
  // assignment.
  if (said.instance != current.id) return member.state.instance == current.id;
  const bool has_obeyed = said.desired_seq >= member.wanted_seq;
  const bool works = said.phase != member_phase::joined && said.phase < member_phase::succeeded;
  return said.phase == member_phase::stopped || (has_obeyed && !works);
}

void run::state::end_of_stop() {
  std::optional<cause> first = final_cause(rounds, memberships, causes, stop, clock);
  // If no member has named a root cause, it may be on one that has not come back to this daemon.
  if (!first || first->is_secondary) {
    if (std::optional<cause> gone = cause_of_not_back(current, rounds, memberships, dead))
      first = std::move(gone);
  }
  const std::optional<cause> why = stop.is_free() ? std::nullopt : first;
  if (why) current.last_cause = why;
  if (first) current.last_end = describe(*first);
  if (memberships.succeeded() == memberships.size()) {
    // The last success was under way when the stop was sent.
    close(0, std::nullopt, "every worker succeeded");
    return;
  }
  add_report(current, rounds, memberships, dead, first);
  // While the memberships are still known.
  blamed_node by = blame(current, memberships, why);
  leave_round();
  if (!stop.is_free()) {
    std::optional<run_end> end = charge(current, nodes, real_now, why, by);
    if (end) return close(end->exit_code, why, std::move(end->text));
  }
  // An earlier daemon has recorded that this failure ends the run. Its cause is told only if the
  // members have reported it again.
  if (const std::optional<due_end> due = current.due) {
    const bool is_same = first && exit_code_of(*first) == due->how.exit_code;
    close(due->how.exit_code, is_same ? first : std::nullopt, due->how.text);
    return;
  }
  if (current.operator_stop) {
    const cause operators = *current.operator_stop;
    close(exit_code_of(operators), operators, describe(operators));
    return;
  }
  current.untold_next =
      what_is_next(current, real_now, why) +
      how_it_goes_on(current, settle, now, timing_of(current, groups), out, why, by) +
      health_phrase(current, nodes, groups);
  // If only nodes are here that leave, the run ends, and its close says what is next.
  if (groups.here() != 0 || left_drained(nodes).empty()) tell_what_is_next(current, nodes, out);
  dismiss(options, counts(), current, claims, out, by);
  dismiss_unhealthy(nodes, waiting);
  if (settle.wants_quiet() || settle.is_pausing(now)) {
    begin_settling();
  } else {
    choose();
  }
}

// Members become nodes that wait. Members that are gone are forgotten, and fenced if they return.
void run::state::leave_round() {
  remember_leftovers(current, rounds, memberships, stop, timing_of(current, groups), clock);
  std::vector<node*> gone;
  std::vector<node*> unanswered;
  std::vector<node*> heedless;
  std::vector<node*> needed;
  for (const membership& one : memberships) {
    node* const member = one.holder();
    if (member == nullptr) continue;
    if (one.command() == command::run) member->ran = {one.rank_first(), one.has_succeeded()};
    if (member->is_needed()) needed.push_back(member);
    const bool is_here = member->node_state == node_state::here;
    if (member->connection == 0) {
      if (one.is_away() || !is_here) gone.push_back(member);
      continue;
    }
    if (one.is_unacked()) unanswered.push_back(member);
    if (member->obedience == obedience::ignores && is_here) heedless.push_back(member);
  }
  memberships.clear();
  for (node* const member : needed) {
    member->participation = participation::regular;  // the others may be enough now
    recount(counts(), *member);
  }
  for (node* const member : gone)
    forget(counts(), current, claims, out, *member);
  for (node* const member : unanswered)
    fence(counts(), current, rounds, out, *member);
  // A node that ignored its stop and has ended its workers by itself needs an order that it can
  // obey.
  for (node* const member : heedless) {
    if (member->node_state == node_state::here && phase == run_phase::stopping) tell_wait(*member);
  }
}

void run::state::check_liveness() {
  while (node* const due = nodes.due(now)) {
    node& who = *due;
    watch_over(current, nodes, who);
    // It has been heard since its entry was made, so watch_over() has moved the entry.
    if (who.watch_at > now) continue;
    const bool was_connected = who.connection != 0;
    lose(who, false,
         was_connected ? "silent for " + to_text(now - who.heard)
                       : "connection lost, not back within " + to_text(now - who.heard));
  }
}

// `proof`: no worker of it can live, because its goodbye or its guardian says so. `has_left`: it
// was its goodbye.
void run::state::lose(node& who, bool proof, const std::string& how, bool has_left) {
  const machine_time last_word = who.heard;
  // Its connection may have ended before: then it is not counted any more, but it was a candidate.
  const bool was_waiting = is_fit(who);
  const bool had_spoken = stop.precedes(who.heard_step);
  const bool was_leaving = who.node_state != node_state::here;
  if (who.membership == nullptr) remember_lost(phase, current, stale, closed, clock, who, proof);
  detach(counts(), current, out, who, true);
  who.heard = last_word;
  if (who.membership == nullptr) {
    if (was_waiting && phase != run_phase::closed) {
      cause why = cause_of(rounds, who, has_left ? cause_class::drain : cause_class::node_lost);
      if (!has_left) why.text = how;
      remember_departure(phase, current, waiting, real_now, who, why);
    }
    if (!proof && was_waiting) out.note(note_level::info, who.label() + " is gone: " + how);
    const bool may_bring_others = was_waiting && phase == run_phase::settling;
    forget(counts(), current, claims, out, who);
    if (may_bring_others) remember_loss(phase, settle, now, timing_of(current, groups));
    return;
  }
  // It stays only for its membership, and is watched again when it comes back.
  nodes.unwatch(who);
  membership& own = *who.membership;
  memberships.set_away(own, true);
  const bool had_succeeded = own.phase() == member_phase::succeeded;
  if (proof && phase != run_phase::stopping) memberships.mark_dead(own);
  // Success is final, so this loss ends nothing (rule 8).
  if (had_succeeded && phase != run_phase::stopping) return;

  cause why = cause_of(rounds, who, cause_class::node_lost);
  // After a late loop the moment of the last message may still be to come on this clock.
  why.age = std::max(now - last_word, duration::zero());
  why.text = how;
  remember_departure(phase, current, waiting, real_now, who, why);
  if (phase == run_phase::stopping) {
    if (proof) {
      acknowledge(waiting, memberships, stop, now, own);
      mark_ended(own);
      memberships.mark_dead(own);
    } else if (had_succeeded) {
      mark_ended(own);
    } else {
      mark_unreachable(own);
    }
    // A node that has sent a message since the stop was ordered has outlived the reason for the
    // stop.
    if (!had_spoken && !had_succeeded && !who.state.draining) causes.add(why, real_now);
    if (!was_leaving) remember_loss(phase, settle, now, timing_of(current, groups));
    return;
  }
  if (!who.state.draining) causes.add(why, real_now);
  remember_loss(phase, settle, now, timing_of(current, groups));
  memberships.fall(own, member_phase::lost);
  const std::string text = causes.get() ? describe(*causes.get()) : who.label() + " left";
  end_round(causes.get() ? &*causes.get() : nullptr, timing_of(current, groups).stop_grace, text);
  if (proof) acknowledge(waiting, memberships, stop, now, own);
}

// Remembers, for people, a node that is gone, with its ranks in the current round or the last one.
void remember_departure(const entered_phase& phase, current_instance& current,
                        wait_message& waiting, time_point real_now, const node& who,
                        const cause& why) {
  std::optional<past_ranks> ran = who.ran;
  if (who.membership != nullptr && who.membership->command() == command::run) {
    ran = past_ranks{who.membership->rank_first(), who.membership->has_succeeded()};
  }
  // A node that has done its work is not missing.
  if (ran && ran->has_succeeded) return;
  const bool waits = phase == run_phase::gathering || phase == run_phase::settling;
  if (!ran && (!waits || who.membership != nullptr)) return;
  if (waits) waiting.change();
  departed_node gone;
  gone.node = who.label();
  gone.position_name = who.position_name();
  gone.was_member = ran.has_value();
  gone.address = who.peer_address;
  if (ran) gone.rank_first = ran->rank_first;
  gone.worker_count = who.greeting.worker_count;
  gone.cause = why;
  gone.at = real_now;
  current.gone.add(who.greeting.session, std::move(gone));
}

void run::state::mark_ended(membership& of) {
  if (of.is_unreachable()) mark_reached(memberships, stop, now, of);
  memberships.mark_ended(of);
  tell_if_only_unreachable_are_left();
}

// The last reachable member has ended: from now on the unreachable ones are waited for, which may
// take long.
void run::state::tell_if_only_unreachable_are_left() {
  if (memberships.unreachable() == 0 || !memberships.are_all_ended_or_unreachable()) return;
  waiting.change();
  if (is_stop_over(current, memberships, stop, timing_of(current, groups), now)) return;
  if (stop.begins_to_wait())
    out.note(note_level::warning,
             stopping_reason(current, rounds, memberships, stop, timing_of(current, groups)));
}

void run::state::mark_unreachable(membership& of) {
  if (of.liveness() != worker_liveness::in_reach) return;
  // It was not told to run, at most to prepare: no worker of it was ever started.
  if (of.command() != command::run) return mark_ended(of);
  memberships.mark_unreachable(of);
  stop.leased_until(of.holder()->heard);
  tell_if_only_unreachable_are_left();
}

void mark_reached(round_memberships& memberships, round_stop& stop, machine_time now,
                  membership& of) {
  if (memberships.mark_reached(of)) stop.tell_late(now);
}

void acknowledge(wait_message& waiting, round_memberships& memberships, round_stop& stop,
                 machine_time now, membership& of, const std::vector<tether_age>& acks) {
  if (!memberships.acknowledge(of)) return;
  const bool had_let_go = stop.has_let_go();
  stop.acknowledge(now, of.group_rank() == 0, acks);
  if (stop.has_let_go() != had_let_go) waiting.change();
}

// What the node runs belongs to a round or an instance that is over. There is no grace, because a
// polite stop could save an old snapshot over a new one.
void fence(const headcount& counts, const current_instance& current, round_numbers& rounds,
           outbox& out, node& who) {
  if (who.node_state != node_state::fenced) {
    out.note(note_level::warning, who.label() + " came back with round " +
                                      std::to_string(who.state.round) +
                                      ", which is over: it is told to kill its workers");
  }
  who.node_state = node_state::fenced;
  recount(counts, who);
  if (who.state.instance == current.id) rounds.raise_floor(who.state.round);
  ddprun::desired value = base_desired(current, rounds, out, desired_phase::fence);
  value.round = rounds.highest();
  value.text = "this node's round is over; the run went on without it";
  out.want(who, finished(std::move(value)));
}

bool is_stop_over(const current_instance& current, const round_memberships& memberships,
                  const round_stop& stop, const timers& timing, machine_time now) {
  if (!memberships.are_all_ended_or_unreachable()) return false;
  // No round follows an operator's stop, so there is nothing to fence for.
  if (memberships.unreachable() == 0 || current.operator_stop) return true;
  const std::optional<machine_time> until = fence_until(memberships, stop, timing);
  return until && now >= *until;
}

// When no unreachable member can have a living worker; none: a reachable member still stops.
std::optional<machine_time> fence_until(const round_memberships& memberships,
                                        const round_stop& stop, const timers& timing) {
  if (memberships.unreachable() == 0 || !memberships.are_all_ended_or_unreachable())
    return std::nullopt;
  return stop.fenced_at(timing, memberships);
}

round_stop::round_stop(machine_time now, std::uint64_t step, duration patience, bool is_free,
                       std::shared_ptr<const daemon_message> message)
    : ordered_at_(now),
      told_at_(now),
      step_(step),
      patience_(patience),
      is_free_(is_free),
      message_(std::move(message)) {
  DDPRUN_ASSERT(step != 0);
}

void round_stop::acknowledge(machine_time now, bool is_leader,
                             const std::vector<tether_age>& acks) {
  DDPRUN_ASSERT(step_ != 0);
  if (!first_acknowledged_) first_acknowledged_ = now;
  if (is_leader) {
    leader_acknowledged_ = now;
    for (const tether_age& one : acks)
      leader_acks_[one.group_rank] = now - one.age;
    return;
  }
  // The leader needs the tethers of all members, so the one that was without an ack for longest
  // counts.
  leader_leased_until_ = std::min(leader_leased_until_, now);
  for (const tether_age& one : acks) {
    if (one.group_rank == 0) leader_leased_until_ = std::min(leader_leased_until_, now - one.age);
  }
}

void round_stop::leased_until(machine_time last_word) {
  DDPRUN_ASSERT(step_ != 0);
  leased_until_ = std::max(leased_until_, last_word);
}

machine_time round_stop::members_leased_until(const round_memberships& memberships) const {
  machine_time last = machine_time::min();
  std::size_t known = 0;
  for (const auto& [group_rank, acked] : leader_acks_) {
    if (!memberships.is_unreachable(group_rank)) continue;
    ++known;
    last = std::max(last, acked);
  }
  return known == memberships.unreachable() ? last : *leader_acknowledged_;
}

machine_time round_stop::fenced_at(const timers& timing,
                                   const round_memberships& memberships) const {
  DDPRUN_ASSERT(first_acknowledged_ || !leader_acknowledged_);
  if (!first_acknowledged_) return std::max(ordered_at_, leased_until_) + timing.orphan_limit;
  const duration limit = timing.isolation_limit;
  // If this daemon has not heard from some members itself, its predecessor may have renewed their
  // leases until it died, which no tether shows.
  const bool are_all_known = memberships.unknown() == 0;
  if (leader_acknowledged_) {
    const machine_time last =
        are_all_known ? members_leased_until(memberships) : *leader_acknowledged_;
    return std::max(last, leased_until_) + with_margin(limit);
  }
  const machine_time last = are_all_known ? leader_leased_until_ : *first_acknowledged_;
  const bool is_leader_only = memberships.unreachable() == 1 && memberships.is_unreachable(0);
  return std::max(last, leased_until_) + with_margin(is_leader_only ? limit : 2 * limit);
}

}  // namespace ddprun::core
