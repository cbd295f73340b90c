// Liveness and fencing: DESIGN.md. When the next round may start: round_stop.hpp.
#include "rendezvous/core/run/state.hpp"

#include <algorithm>

namespace ddprun::core {
void run::state::check_liveness() {
  while (node* const due = nodes.due(now)) {
    node& who = *due;
    watch_over(who);
    if (who.watch_at > now) continue;
    const bool was_connected = who.connection != 0;
    lose(who, false,
         was_connected ? "silent for " + to_text(now - who.heard)
                       : "connection lost, not back within " + to_text(now - who.heard));
  }
}

// `proof`: no worker of it can live, by its own last word or its guardian's. `has_left`: its own.
void run::state::lose(node& who, bool proof, const std::string& how, bool has_left) {
  const machine_time last_word = who.heard;
  // Its connection may have ended before: it counts no more, and was one to be chosen all the same.
  const bool was_waiting = is_fit(who);
  const bool had_spoken = stop.precedes(who.heard_step);
  const bool was_leaving = who.standing != standing::here;
  if (who.seat == nullptr) remember_lost(who, proof);
  detach(who, true);
  who.heard = last_word;
  if (who.seat == nullptr) {
    if (was_waiting && phase != run_phase::closed) {
      cause why = cause_of(who, has_left ? cause_class::drain : cause_class::node_lost);
      if (!has_left) why.text = how;
      remember_departure(who, why);
    }
    if (!proof && was_waiting) note(note_level::info, who.label() + " is gone: " + how);
    const bool may_bring_others = was_waiting && phase == run_phase::settling;
    forget(who);
    if (may_bring_others) remember_loss();
    return;
  }
  // It stays only for its place in the round, and is watched again when it comes back.
  nodes.unwatch(who);
  seat& place = *who.seat;
  seats.set_away(place, true);
  const bool had_succeeded = place.phase() == member_phase::succeeded;
  if (proof && phase != run_phase::stopping) seats.mark_dead(place);
  if (had_succeeded && phase != run_phase::stopping) return;

  cause why = cause_of(who, cause_class::node_lost);
  // After the loop was late the last word is counted from a moment that may still be to come.
  why.age = std::max(now - last_word, duration::zero());
  why.text = how;
  remember_departure(who, why);
  if (phase == run_phase::stopping) {
    if (proof) {
      acknowledge(place);
      mark_ended(place);
      seats.mark_dead(place);
    } else if (had_succeeded) {
      mark_ended(place);
    } else {
      mark_unreachable(place);
    }
    // One that has spoken since the stop outlived what the stop was for.
    if (!had_spoken && !had_succeeded && !who.state.draining) causes.add(why, real_now);
    if (!was_leaving) remember_loss();
    return;
  }
  if (!who.state.draining) causes.add(why, real_now);
  remember_loss();
  seats.fall(place, member_phase::lost);
  const std::string text = causes.get() ? describe(*causes.get()) : who.label() + " left";
  end_round(causes.get() ? &*causes.get() : nullptr, timing().stop_grace, text);
  if (proof) acknowledge(place);
}

// With its ranks in the round that is on, or was the last to run.
void run::state::remember_departure(const node& who, const cause& why) {
  std::optional<ran_place> ran = who.ran;
  if (who.seat != nullptr && who.seat->command() == command::run) {
    ran = ran_place{who.seat->rank_first(), who.seat->has_succeeded()};
  }
  if (ran && ran->has_succeeded) return;
  const bool waits = phase == run_phase::gathering || phase == run_phase::settling;
  if (!ran && (!waits || who.seat != nullptr)) return;
  if (waits) notice.change();
  departed_node gone;
  gone.node = who.label();
  gone.lasting_name = who.lasting_name();
  gone.was_member = ran.has_value();
  gone.address = who.peer_address;
  if (ran) gone.rank_first = ran->rank_first;
  gone.worker_count = who.greeting.worker_count;
  gone.cause = why;
  gone.at = real_now;
  current.gone.add(who.greeting.session, std::move(gone));
}

void run::state::mark_ended(seat& of) {
  if (of.is_unreachable()) mark_reached(of);
  seats.mark_ended(of);
  tell_if_only_unreachable_are_left();
}

// The last one that could be reached: from now on the others are waited for, which may take long.
void run::state::tell_if_only_unreachable_are_left() {
  if (seats.unreachable() == 0 || !seats.are_all_ended_or_unreachable()) return;
  notice.change();
  if (stop.begins_to_wait()) note(note_level::warning, stopping_reason());
}

void run::state::mark_unreachable(seat& of) {
  if (of.fate() != fate::in_reach) return;
  // Only the leader was told anything, and that was to prepare: no worker was ever started.
  if (of.command() != command::run) return mark_ended(of);
  seats.mark_unreachable(of);
  stop.vouched_until(of.holder()->heard);
  tell_if_only_unreachable_are_left();
}

void run::state::mark_reached(seat& of) {
  if (seats.mark_reached(of)) stop.tell_late(now);
}

void run::state::acknowledge(seat& of) {
  if (!seats.acknowledge(of)) return;
  const bool had_let_go = stop.has_let_go();
  stop.acknowledge(now, of.slot() == 0);
  if (stop.has_let_go() != had_let_go) notice.change();
}

// Whatever it runs belongs to a round or an instance that is over: no grace, a polite stop could
// save an old snapshot over a new one.
void run::state::fence(node& who) {
  if (who.standing != standing::fenced) {
    note(note_level::warning, who.label() + " came back in round " +
                                  std::to_string(who.state.round) + ", which is over: fenced");
  }
  who.standing = standing::fenced;
  recount(who);
  if (who.state.instance == current.id) rounds.raise_floor(who.state.round);
  ddprun::desired value = base_desired(desired_phase::fence);
  value.round = rounds.highest();
  value.text = "this node's round is over; the run went on without it";
  want(who, finished(std::move(value)));
}

bool run::state::is_stop_over() const {
  if (!seats.are_all_ended_or_unreachable()) return false;
  // No round follows an operator's stop, so there is nothing to fence for.
  if (seats.unreachable() == 0 || current.operator_stop) return true;
  const std::optional<machine_time> until = fence_until();
  return until && now >= *until;
}

// When nobody that cannot be reached can have a living worker; none while a member that can be
// reached still stops.
std::optional<machine_time> run::state::fence_until() const {
  if (seats.unreachable() == 0 || !seats.are_all_ended_or_unreachable()) return std::nullopt;
  return stop.fenced_at(timing());
}

}  // namespace ddprun::core
