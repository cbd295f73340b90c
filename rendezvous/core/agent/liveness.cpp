// Which peers give this node its lease, since when, and what happens when none has done so for
// isolation_limit.
//
// The daemon relies on this (DESIGN.md): it starts the next round over an unreachable member
// isolation_limit after another member of the old round has let its tether go, and over an
// unreachable leader, and members that may depend on it, after twice that. All times here count
// from this node's own sending, so a delay on the way only makes this node give up sooner.
#include "rendezvous/core/agent/agent_state.hpp"

#include <algorithm>

namespace ddprun::core {

// Clocks may deviate by 1 %, so this node takes 2 % off. That a timer fires late and a kill takes a
// moment is in the daemon's margin (run/stop.hpp): with a node_timeout of 1 s the limit is 0.8 s,
// and taking off a tenth of a second more would cost a heartbeat that may be missed.
duration agent::state::limit() const {
  return timing.isolation_limit - timing.isolation_limit / 50;
}

// A connection without a message for this long is given up, in time for another one to help.
duration agent::state::silence_limit() const {
  return timing.isolation_limit / 2;
}

// When the newest lease from other members of the round counts from; none: there is none.
agent::state::moment agent::state::lease_of_round() const {
  if (local.isolation.frozen()) return local.isolation.frozen();
  if (!local.is_on()) return std::nullopt;
  // A lone leader holds the tethers of all others, because there are none. That keeps workers alive
  // but starts none, because it does not show that the round is still wanted.
  if (local.is_alone()) return local.workers.living() > 0 ? moment(real_now) : std::nullopt;
  if (!local.is_leader()) return local.tether.leased_from();
  return local.held.leased_from(local.group_world_size() - 1);
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

// When the workers must end because no peer renews their lease; none: no end is due. A node that
// has succeeded has nothing to kill; as a leader it only stops acknowledging tethers.
agent::state::moment agent::state::isolation_due() const {
  if (!local.is_on() || local.phase() == member_phase::succeeded) return std::nullopt;
  // There is nothing left to kill.
  if (local.workers.are_killed() ||
      (local.phase() == member_phase::failed && local.workers.living() == 0))
    return std::nullopt;
  // No other member could start a round that this one does not know of.
  if (local.workers.living() > 0 && local.is_alone() && !local.isolation.frozen())
    return std::nullopt;
  // All have ended, and only how is still unclear.
  if (local.workers.living() == 0 && !local.unclear.empty()) return std::nullopt;
  return lease().value_or(clock.real(local.began())) + limit();
}

// The other members' leases count only for as long as a daemon that cannot reach the round waits
// for it: after orphan_limit the next round starts. A tenth of that is left for clocks that
// deviate, and for the workers to end.
agent::state::moment agent::state::orphan_due() const {
  if (local.workers.living() == 0 || local.workers.are_killed()) return std::nullopt;
  if (local.isolation.is_asked() || local.phase() == member_phase::succeeded) return std::nullopt;
  return daemon.leased_from().value_or(clock.real(local.began())) + timing.orphan_limit -
         timing.orphan_limit / 10;
}

agent::state::moment agent::state::isolation_deadline() const {
  moment due = isolation_due();
  if (const moment orphan = orphan_due(); orphan && (!due || *orphan < *due)) due = orphan;
  return local.isolation.put_off_from(due);
}

// The guardian's limit, in case the caller stands still. If a run has only one node, which holds
// the daemon, too, there is no other node, and it may go on whenever it wakes up.
agent::state::moment agent::state::workers_live_until() const {
  const bool is_all = options.greeting.hosts_daemon && options.greeting.settings.nodes_max == 1;
  if (left || local.workers.living() == 0 || (is_all && local.is_alone())) return std::nullopt;
  return isolation_deadline();
}

// Whether the workers should have ended by now.
bool agent::state::has_lapsed() const {
  const auto is_past = [this](const moment& due) { return due && real_now >= *due; };
  return is_past(isolation_due()) || is_past(orphan_due());
}

void agent::state::lease_renewed() {
  if (!has_lapsed()) local.isolation.renewed_in_time();
}

void agent::state::on_isolation() {
  const moment alone_since = isolation_due();
  const bool is_isolated = alone_since && real_now >= *alone_since;
  const std::string text = is_isolated ? isolation_text(daemon, local, endpoints_text, limit())
                                       : orphan_text(daemon, local, endpoints_text, timing, clock);
  remember_isolation(text);
  if (is_isolated) return take_down(force::kill);
  // No other round can have begun yet, so there is time to ask.
  local.isolation.ask();
  take_down(force::ask, std::min(timing.stop_grace, timing.orphan_limit / 20));
}

void agent::state::remember_isolation(const std::string& text) {
  note(note_level::error, text);
  if (local.workers.are_asked()) return;
  ddprun::cause why;
  why.kind = cause_class::node_lost;
  why.by_our_stop = true;
  why.text = text;
  remember(std::move(why));
}

// Handled like an isolation that this machine has noticed itself.
void agent::state::handle(const killed_by_guardian& event) {
  if (event.round != local.number() || local.workers.living() == 0 || local.workers.are_killed())
    return;
  local.workers.take_as_struck();
  remember_isolation(stood_still_text(timing));
  take_down(force::kill);
}

// The loop stood still and could hear nothing, so that time does not count against any peer. For
// isolation only as much is added as a heartbeat and its ack take, and only once, because the
// clocks of the others went on.
void agent::state::was_late(duration by) {
  if (by == duration::zero()) return;
  if (const moment deadline = isolation_deadline(); deadline) {
    local.isolation.put_off(std::min(*deadline + by, real_now + 2 * timing.heartbeat_interval));
  }
  clock.lose(by);
  set_time(real_now);
  // Send a status at once; a beat is due by now, too.
  if (by >= timing.heartbeat_interval) changed = true;
}

}  // namespace ddprun::core
