// Which peers give this node its lease, since when, and what happens when none has for
// isolation_limit.
//
// The daemon's side of the bargain (DESIGN.md): over a member that it cannot reach, it
// starts the next round isolation_limit after another member of the old round has let its tether
// go, twice that over a leader and members that may hang on it. All counting here is from this
// node's own sending, so a delay on the way only makes this node give up sooner.
#include "rendezvous/core/agent/state.hpp"

#include <algorithm>

namespace ddprun::core {

// Clocks may run 1 % apart: this node takes 2 % off. That a timer fires late and a kill takes a
// moment is the daemon's margin (run/stop.hpp): with a node_timeout of 1 s the limit is 0.8
// s, and a tenth of a second off it would be a heartbeat that may not be missed.
duration agent::state::limit() const {
  return timing.isolation_limit - timing.isolation_limit / 50;
}

// After so long without a word a connection is given up, in time for another one to help.
duration agent::state::silence_limit() const {
  return timing.isolation_limit / 2;
}

// From when the newest lease of another member of the round counts; none: there is none.
agent::state::moment agent::state::lease_of_round() const {
  if (here.isolation.frozen()) return here.isolation.frozen();
  if (!here.is_on()) return std::nullopt;
  // Alone it holds the tethers of all others: there are none. That keeps workers, it starts none:
  // it says nothing about whether the round is still wanted.
  if (here.is_alone()) return here.workers.living() > 0 ? moment(real_now) : std::nullopt;
  if (!here.is_leader()) return here.tether.leased_from();
  return here.held.leased_from(here.group_world_size() - 1);
}

agent::state::moment agent::state::lease() const {
  const moment others = lease_of_round();
  if (!others || !daemon.leased_from()) return others ? others : daemon.leased_from();
  return std::max(*others, *daemon.leased_from());
}

bool agent::state::has_lease() const {
  const moment last = lease();
  return last && real_now < *last + limit();
}

// When the workers must end because nobody renews their lease; none while it has no end.
// A node that has succeeded has nothing to kill; its leader only stops to answer tethers.
agent::state::moment agent::state::isolation_due() const {
  if (!here.is_on() || here.phase() == member_phase::succeeded) return std::nullopt;
  if (here.workers.are_killed() ||
      (here.phase() == member_phase::failed && here.workers.living() == 0))
    return std::nullopt;
  if (here.workers.living() > 0 && here.is_alone() && !here.isolation.frozen()) return std::nullopt;
  if (here.workers.living() == 0 && !here.unclear.empty()) return std::nullopt;
  return lease().value_or(clock.real(here.began())) + limit();
}

// The others' lease is good only for as long as a daemon that can reach none of the round waits
// for it: after orphan_limit the next round starts. A tenth of that is for clocks that differ, and
// for the workers to end.
agent::state::moment agent::state::orphan_due() const {
  if (here.workers.living() == 0 || here.workers.are_killed()) return std::nullopt;
  if (here.isolation.is_asked() || here.phase() == member_phase::succeeded) return std::nullopt;
  return daemon.leased_from().value_or(clock.real(here.began())) + timing.orphan_limit -
         timing.orphan_limit / 10;
}

agent::state::moment agent::state::isolation_deadline() const {
  moment due = isolation_due();
  if (const moment orphan = orphan_due(); orphan && (!due || *orphan < *due)) due = orphan;
  return here.isolation.put_off_from(due);
}

// The guardian's limit, for a caller that stands still. The only node of a run whose daemon it
// holds has nobody beside it, and may go on wherever it was.
agent::state::moment agent::state::workers_live_until() const {
  const bool is_all = options.greeting.hosts_daemon && options.greeting.settings.nodes_max == 1;
  if (left || here.workers.living() == 0 || (is_all && here.is_alone())) return std::nullopt;
  return isolation_deadline();
}

// The workers ought to have ended by now.
bool agent::state::has_lapsed() const {
  const auto is_past = [this](const moment& due) { return due && real_now >= *due; };
  return is_past(isolation_due()) || is_past(orphan_due());
}

void agent::state::lease_renewed() {
  if (!has_lapsed()) here.isolation.renewed_in_time();
}

void agent::state::on_isolation() {
  const moment alone_since = isolation_due();
  const bool is_isolated = alone_since && real_now >= *alone_since;
  const std::string text = is_isolated ? isolation_text() : orphan_text();
  remember_isolation(text);
  if (is_isolated) return take_down(force::kill);
  // No other round can have begun: there is time to ask.
  here.isolation.ask();
  take_down(force::ask, std::min(timing.stop_grace, timing.orphan_limit / 20));
}

void agent::state::remember_isolation(const std::string& text) {
  note(note_level::error, text);
  if (here.workers.are_asked()) return;
  ddprun::cause why;
  why.kind = cause_class::node_lost;
  why.by_our_stop = true;
  why.text = text;
  remember(std::move(why));
}

// As after an isolation that this machine has seen itself.
void agent::state::handle(const killed_by_guardian& event) {
  if (event.round != here.number() || here.workers.living() == 0 || here.workers.are_killed())
    return;
  here.workers.take_as_struck();
  remember_isolation(stood_still_text());
  take_down(force::kill);
}

// The loop stood still: nothing could be heard, so nothing is held against anybody for that long.
// For isolation only as long as a question and its answer take, and once: the others' clocks ran.
void agent::state::was_late(duration by) {
  if (by == duration::zero()) return;
  if (const moment deadline = isolation_deadline(); deadline) {
    here.isolation.put_off(std::min(*deadline + by, real_now + 2 * timing.heartbeat_interval));
  }
  clock.lose(by);
  set_time(real_now);
  // Ask at once; a beat is due by now, too.
  if (by >= timing.heartbeat_interval) changed = true;
}

}  // namespace ddprun::core
