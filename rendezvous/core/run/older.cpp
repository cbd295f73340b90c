// What may still live of instances before this one. The first round of an instance starts only when
// no worker of an older one can live, as far as this daemon knows or has heard:
//
//   a node that was told to end its workers    its own word, its goodbye, or its guardian's
//   a member that could not be reached when    what a stop would have waited for (round_stop.hpp)
//   its instance was closed
//   a node that came back to a daemon which    the orphan limit: nobody knows whom it held, and who
//   does not know its instance, and went       held it
//
// From then on a round of this instance is on, and who comes back from an older one is fenced.
#include "rendezvous/core/run/state.hpp"

#include <algorithm>

namespace ddprun::core {
namespace {

bool has_living_workers(const status& said) {
  switch (said.phase) {
    case member_phase::assigned:
    case member_phase::starting:
    case member_phase::running:
    case member_phase::failed:
    case member_phase::stopping:
      return said.round != 0;
    case member_phase::joined:
    case member_phase::preparing:
    case member_phase::succeeded:
    case member_phase::stopped:
    case member_phase::lost:
      return false;
  }
  return true;
}

}  // namespace

bool knows_of_round(const status& said) {
  return said.instance != 0 && (said.round != 0 || said.round_told != 0);
}

// Of another instance than that of the newcomers here, of whom nobody has been placed. One who
// comes and goes with ever new instances holds them up for so many windows only.
bool run::state::is_of_running_instance(const node& who) const {
  if (!is_recovering() && !claims.may_reopen()) return false;
  const bool waits = phase == run_phase::gathering || phase == run_phase::preparing;
  return waits && !current.has_placed && who.standing != standing::fenced &&
         who.state.instance != current.id && knows_of_round(who.state);
}

void run::state::watch_ending(node& who) {
  const bool was_told = who.standing == standing::fenced || who.standing == standing::closing;
  const bool is_ending = was_told && has_living_workers(who.state);
  const bool is_news = is_ending ? older.add_ending(who.order, now) : older.drop_ending(who.order);
  if (is_news) notice.change();
}

// One that answers, but does not end its workers, is broken: unanswered it isolates itself.
void run::state::lose_ending() {
  if (current.settings) return;
  std::vector<node*> broken;
  for (const auto& [order, since] : older.ending()) {
    node& who = nodes.at(order);
    if (now - since >= stop_patience_of(timing_of(who), duration::zero())) broken.push_back(&who);
  }
  for (node* const who : broken) {
    note(note_level::error, who->label() + " was told to end its workers and has not");
    lose(*who, false, "does not end its workers");
  }
}

// A node of an older instance went before it said that its workers are gone.
void run::state::remember_lost(const node& who, bool proof) {
  if (current.settings && phase != run_phase::closed) return;
  const bool is_claimant = who.standing == standing::claimant;
  const bool was_told = who.standing == standing::fenced || who.standing == standing::closing;
  const bool matters =
      (is_claimant && knows_of_round(who.state)) || (was_told && has_living_workers(who.state));
  if (!matters) return;
  const timers& timing = timing_of(who);
  const bool was_alone = who.state.place && who.state.place->group_world_size <= 1;
  // The nodes on either end of its tether follow within two isolation limits.
  time_point until = clock.real(who.heard) + timing.orphan_limit;
  if (who.standing == standing::closing && closed.has_let_go(who.state.instance)) {
    until = clock.real(who.heard) + with_margin(2 * timing.isolation_limit);
  }
  if (proof) {
    // Of a closed instance more is known.
    if (was_alone || who.standing == standing::closing) return;
    until = real_now + with_margin(2 * timing.isolation_limit);
  }
  older.raise_lost_until(until);
}

// Of a round that is left while some of it cannot be reached: an operator does not wait for them.
void run::state::remember_leftovers() {
  if (seats.empty()) return;
  current.left_behind = {};
  current.left_behind.round = rounds.newest();
  for (const seat& one : seats) {
    if (one.has_succeeded()) current.left_behind.succeeded.insert(one.slot());
  }
  const std::optional<machine_time> until = fence_until();
  if (!until || now >= *until) return;
  current.left_behind.until = clock.real(*until);
  current.left_behind.is_held = !stop.has_let_go();
  current.left_behind.let_go_limit = with_margin(2 * timing().isolation_limit);
  current.left_behind.unknown = seats.unknown();
  for (const seat& one : seats) {
    if (one.holder() == nullptr || !one.is_unreachable()) continue;
    current.left_behind.sessions.insert(one.holder()->greeting.session);
  }
}

time_point run::state::older_until() const {
  const time_point until = std::max(older.lost_until(), closed.living_until());
  const std::optional<machine_time> remembered = remembered_until();
  return remembered ? std::max(until, clock.real(*remembered)) : until;
}

bool run::state::older_may_live() const {
  return !current.settings && (!older.ending().empty() || real_now < older_until());
}

timer_moment run::state::older_deadline() const {
  if (!older_may_live()) return std::nullopt;
  std::optional<machine_time> next;
  for (const auto& [order, since] : older.ending()) {
    const machine_time due = since + stop_patience_of(timing_of(nodes.at(order)), duration::zero());
    if (!next || due < *next) next = due;
  }
  if (next) return next;
  return older_until();
}

std::string run::state::older_reason() const {
  if (!older_may_live()) return {};
  std::string who;
  if (!older.ending().empty()) who = " of " + nodes.at(older.ending().begin()->first).label();
  std::string text =
      "; waiting until the workers" + who + " of an earlier life of this run must be gone";
  const std::optional<machine_time> remembered = remembered_until();
  if (remembered && now < *remembered && earlier.record()->nodes < nodes_per_run_max) {
    text += ", or for " + std::to_string(earlier.record()->nodes) + " nodes, as many as it had";
  }
  return text;
}

}  // namespace ddprun::core
