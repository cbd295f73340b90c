// What the members report of a round's end, and what is made of it when the stop is over:
// DESIGN.md, rules 5 and 6.
#include "rendezvous/core/run/state.hpp"

namespace ddprun::core {

// As one of its workers, or it itself, ended the newest round.
cause run::state::cause_of(const node& who, cause_class kind) const {
  cause why;
  why.round = rounds.newest();
  if (who.seat != nullptr) why.slot = who.seat->slot();
  why.node = who.label();
  why.kind = kind;
  return why;
}

void run::state::collect_causes(const node& who) {
  for (const cause& one : who.state.causes) {
    if (one.round == rounds.newest()) causes.add_report(one, real_now);
  }
}

// A member says its tail until it was answered; what comes after is the same without it.
void run::state::keep_tails(const status& before, status& newest) {
  for (cause& one : newest.causes) {
    if (!one.tail.empty()) continue;
    for (const cause& known : before.causes) {
      const bool is_same = one.round == known.round && one.kind == known.kind &&
                           one.code == known.code && one.local_rank == known.local_rank &&
                           one.process == known.process;
      if (is_same) one.tail = known.tail;
    }
  }
}

// A worker of a node that is drained, which ended by the signal that drains it. Whether the agent
// or its workers were sent it first, and who of them was noticed first, is chance.
bool run::state::is_drain(const node& member, const cause& one) {
  return member.state.draining && is_end_by(one, member.state.signal);
}

// The first cause, as known when all have stopped: a node that drains may have said so after its
// workers had ended. Then the reports are judged again.
std::optional<cause> run::state::final_cause() const {
  first_cause judged = causes.without_reports();
  bool is_drained = false;
  for (const seat& place : seats) {
    const node* const member = place.holder();
    if (member == nullptr) continue;
    for (cause one : member->state.causes) {
      if (one.round != rounds.newest()) continue;
      if (is_drain(*member, one)) {
        is_drained = true;
        one.kind = cause_class::drain;
        one.code = member->state.signal;
        one.by_our_stop = false;
        one.was_failing = false;
        one.rank.reset();
        one.local_rank.reset();
        one.text.clear();
      }
      judged.add(one, clock.real(member->heard));
    }
  }
  return is_drained ? judged.get() : causes.get();
}

}  // namespace ddprun::core
