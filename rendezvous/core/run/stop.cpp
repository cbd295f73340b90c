// The stop of a round, from its order to what comes after it: DESIGN.md, rule 4.
#include "rendezvous/core/run/state.hpp"

namespace ddprun::core {

// Stop goes to everybody who was told of the round, as one shared message.
void run::state::end_round(const cause* trigger, duration grace, std::string text, bool is_free) {
  DDPRUN_ASSERT(phase == run_phase::preparing || phase == run_phase::running);
  note(note_level::warning, "round " + std::to_string(rounds.newest()) + " ends: " + text);
  current.lasted = lasted_so_far();
  end_age();
  enter(run_phase::stopping);
  seats.end_start();
  current.last_end = text;
  ddprun::desired value = base_desired(desired_phase::stop);
  value.grace = grace;
  value.is_unreported = trigger == nullptr || trigger->kind == cause_class::drain ||
                        trigger->kind == cause_class::operator_stop;
  value.text = std::move(text);
  stop = round_stop(now, steps, stop_patience_of(timing(), grace), is_free,
                    finished(std::move(value)));
  for (seat& one : seats) {
    if (one.holder() == nullptr) continue;
    node& member = *one.holder();
    const bool is_here = member.standing == standing::here;
    if (one.command() != command::none && is_here) want(member, stop.message());
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
  // A waiting node is told why, and shows by its answer that it is a candidate.
  for (const auto& [order, who] : nodes) {
    const bool waits = who->seat == nullptr || who->seat->command() == command::none;
    if (waits && is_candidate(*who)) tell_wait(*who);
  }
}

// What a member says while the round stops: it has dropped its tethers, its workers are gone.
void run::state::on_stop_status(node& who) {
  const status& said = who.state;
  seat& place = *who.seat;
  const bool of_round = said.instance == current.id && said.round == rounds.newest();
  if (of_round) collect_causes(who);
  // Everybody who was told of the round is told to stop it.
  const bool has_obeyed = said.desired_seq >= who.wanted_seq;
  switch (said.phase) {
    case member_phase::preparing:
    case member_phase::assigned:
    case member_phase::starting:
    case member_phase::running:
    case member_phase::lost:
      return;
    case member_phase::failed:
    case member_phase::stopping:
      if (of_round && has_obeyed) acknowledge(place);
      return;
    case member_phase::stopped:
      if (of_round) note_success(who);
      if (has_obeyed) acknowledge(place);
      if (of_round || has_obeyed) mark_ended(place);
      return;
    case member_phase::succeeded:
      if (of_round) note_success(who);
      [[fallthrough]];
    case member_phase::joined:
      // Either the stop overtook the assignment, or it had ended before: nothing lives there.
      if (!has_obeyed) return;
      acknowledge(place);
      mark_ended(place);
      return;
  }
}

// A node that has acknowledged asks, kills, and names what it cannot kill, each in bounded time.
// One that still stops after all that is broken; it is treated as one whose workers cannot be
// killed. One that has acknowledged nothing may hold others by its tether: it is lost, whatever it
// says, and answered no more, so that it isolates itself while its fence runs.
timer_moment run::state::stop_overdue_at() const {
  if (phase != run_phase::stopping) return std::nullopt;
  if (seats.are_all_ended_or_unreachable()) return std::nullopt;
  return stop.overdue_at();
}

void run::state::on_stop_overdue() {
  for (seat& one : seats) {
    if (one.fate() != fate::in_reach) continue;
    node& member = *one.holder();
    member.overdue = true;
    recount(member);
    const std::string after = to_text(stop.patience()) + " after it was told to";
    if (one.has_acknowledged()) {
      note(note_level::error,
           member.label() + " still stops its workers " + after + ": going on without it");
      mark_ended(one);
    } else {
      note(note_level::error, member.label() + " has not begun to stop its workers " + after +
                                  ": taken for lost, and not answered until it does");
      seats.set_unanswered(one, true);
      member.ignores = true;
      mark_unreachable(one);
    }
  }
  stop.tell_late(now);
}

// By its own word it has let go of the other members, at least.
bool run::state::shows_stop(const node& member, const status& said) const {
  // It has left the instance; one that has never been in it may still read its assignment.
  if (said.instance != current.id) return member.state.instance == current.id;
  const bool has_obeyed = said.desired_seq >= member.wanted_seq;
  const bool works = said.phase != member_phase::joined && said.phase < member_phase::succeeded;
  return said.phase == member_phase::stopped || (has_obeyed && !works);
}

void run::state::end_of_stop() {
  const std::optional<cause> first = final_cause();
  const std::optional<cause> why = stop.is_free() ? std::nullopt : first;
  if (why) current.last_cause = why;
  if (first) current.last_end = describe(*first);
  if (seats.succeeded() == seats.size()) {
    // The stop crossed the last success on its way.
    close(0, std::nullopt, "every worker succeeded");
    return;
  }
  add_report(first);
  blamed_node by = blame(why);
  leave_round();
  if (!stop.is_free() && !charge(why, by)) return;
  if (current.operator_stop) {
    const cause operators = *current.operator_stop;
    close(exit_code_of(operators), operators, describe(operators));
    return;
  }
  tell_report(false, 0, what_is_next(why) + how_it_goes_on(why, by));
  dismiss(by);
  if (choice.wants_quiet() || choice.is_pausing(now)) {
    begin_settling();
  } else {
    choose();
  }
}

// Members become nodes that wait; those that are gone are forgotten, and fenced should they return.
void run::state::leave_round() {
  remember_leftovers();
  std::vector<node*> gone;
  std::vector<node*> unanswered;
  std::vector<node*> heedless;
  for (const seat& one : seats) {
    node* const member = one.holder();
    if (member == nullptr) continue;
    if (one.command() == command::run) member->ran = {one.rank_first(), one.has_succeeded()};
    const bool is_here = member->standing == standing::here;
    if (member->connection == 0) {
      if (one.is_away() || !is_here) gone.push_back(member);
      continue;
    }
    if (one.is_unanswered()) unanswered.push_back(member);
    if (member->ignores && is_here) heedless.push_back(member);
  }
  seats.clear();
  for (node* const member : gone)
    forget(*member);
  for (node* const member : unanswered)
    fence(*member);
  // One that has ended its workers by itself is given something to obey.
  for (node* const member : heedless) {
    if (member->standing == standing::here && phase == run_phase::stopping) tell_wait(*member);
  }
}

}  // namespace ddprun::core
