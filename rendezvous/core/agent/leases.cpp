// Whose lease keeps this node's workers alive: both ends of the tether, and what happens when
// nobody renews a lease (DESIGN.md, "Liveness and fencing").
#include "rendezvous/core/agent/leases.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/core/agent/agent_state.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

// Both ends of the tether.
//
// A member sends its next beat only once the last one was acknowledged. So a beat tells the leader
// that the member got the previous ack, and the leader can count from when it gave that ack. Both
// ends count from their own sending, and no delay on the way makes either believe in a lease for
// too long.

session_id own_tether_session(const agent_options& options) {
  return options.tether_session == session_id{} ? options.greeting.session : options.tether_session;
}

void agent::state::dial(duration delay) {
  local.tether.dial(real_now, delay);
  const assignment& assigned = *local.assignment();
  emit(dial_tether{local.number(), assigned.master_address, assigned.tether_port, delay,
                   tether_hello{local.instance(), local.number(), own_tether_session(options),
                                assigned.group_rank, newest.epoch()}});
}

void agent::state::dial_again(std::string text) {
  dial(jittered(local.tether.failed(std::move(text), timing.heartbeat_interval)));
}

void agent::state::handle(const tether_connected&) {}  // The ack of the hello is what counts.

void agent::state::handle(const tether_disconnected& event) {
  if (event.round != local.number() || !local.tether.is_wanted()) return;
  local.tether.broke(real_now);
  dial_again(event.text);
}

void agent::state::handle(const tether_acked& event) {
  if (event.round != local.number()) return;
  if (!local.tether.acked(event.seq, real_now, timing.heartbeat_interval)) return;
  lease_renewed();
  spawn_when_leased();
  beat_if_due();
}

void agent::state::beat_if_due() {
  const moment due = local.tether.beat_deadline();
  if (!due || real_now < *due) return;
  emit(send_tether_beat{{local.tether.beat(real_now), local.phase() == member_phase::succeeded}});
}

// A node that cannot reach its leader says so well before start_timeout, with both addresses.
std::optional<machine_time> reach_deadline(const local_round& local, const timers& timing) {
  if (local.phase() != member_phase::assigned || !local.tether.is_wanted()) return std::nullopt;
  return local.began() + timing.start_timeout / 2;
}

void agent::state::on_leader_unreachable() {
  ddprun::cause why;
  why.kind = cause_class::start;
  why.text = tether_failure_text(daemon, local, timing);
  emit(drop_tether{});
  local.tether.let_go();
  fail(std::move(why));
}

void agent::state::on_tether_silent() {
  emit(drop_tether{});
  dial_again("no answer for " + to_text(silence_limit(timing)));
}

bool accepts_tethers(const local_round& local) {
  return local.is_leader() && local.phase() != member_phase::stopping && local.has_service();
}

std::string why_not_held(const local_round& local, const std::string& node,
                         const tether_hello& hello) {
  const std::string of_round = "round " + std::to_string(hello.round);
  if (!accepts_tethers(local) || hello.round != local.number() ||
      hello.instance != local.instance()) {
    return of_round + " is not running at node " + node;
  }
  if (hello.group_rank == 0 || hello.group_rank >= local.group_world_size()) {
    return of_round + " has no member " + std::to_string(hello.group_rank);
  }
  if (!local.held.is_other(hello)) return "";
  return "member " + std::to_string(hello.group_rank) + " of " + of_round + " is another agent";
}

void agent::state::handle(const member_attached& event) {
  if (std::string refusal = why_not_held(local, options.greeting.node, event.hello);
      !refusal.empty()) {
    emit(refuse_member{event.tether, std::move(refusal)});
    return;
  }
  // The member may have dialled again before this side has noticed that its old connection is
  // broken.
  if (const auto older = local.held.attach(event.tether, event.hello)) {
    emit(refuse_member{*older, "a newer tether of the same member has connected"});
  }
  // A leader without a lease must not give any.
  if (has_lease(local, daemon, timing, clock)) ack_tether(event.tether, 0);
}

void agent::state::handle(const member_beat& event) {
  const auto kind = local.held.beat(event.tether, event.beat, real_now);
  if (kind == held_tethers::beat_kind::old) return;
  if (kind == held_tethers::beat_kind::renews) {
    lease_renewed();
    spawn_when_leased();
  }
  // As above, no ack without a lease.
  if (accepts_tethers(local) && has_lease(local, daemon, timing, clock))
    ack_tether(event.tether, event.beat.seq);
}

void agent::state::ack_tether(std::uint64_t tether, std::uint64_t seq) {
  local.held.ack(tether, real_now);
  emit(ack_member{tether, seq});
}

// A node that the daemon cannot reach had its lease from these tethers, and the daemon need not
// wait for what is past already. Nothing is said before all are let go, because another ack may
// follow.
std::vector<tether_age> stale_tethers(const local_round& local, const timers& timing,
                                      time_point now) {
  const bool has_let_go =
      local.phase() == member_phase::stopping || local.phase() == member_phase::stopped;
  if (!has_let_go || local.tether.is_wanted() || local.held.open() > 0) return {};
  const time_point old = now - 2 * timing.heartbeat_interval;
  if (const auto& acked = local.tether.acked_at(); acked && *acked <= old) {
    return {{0, now - *acked}};
  }
  return local.held.acks_before(old, now);
}

void agent::state::handle(const member_detached& event) {
  local.held.detach(event.tether);
}

void tether_link::dial(time_point now, duration delay) {
  if (stage_ != stage::dialling) hello_since_ = now;
  stage_ = stage::dialling;
  asked_at_ = now + delay;
}

duration tether_link::failed(std::string text, duration heartbeat_interval) {
  error_ = std::move(text);
  const unsigned doublings = std::min(attempts_, 10U);
  ++attempts_;
  const duration step = heartbeat_interval / 20;
  return std::min<duration>(heartbeat_interval / 2, step * (1U << doublings));
}

std::uint64_t tether_link::beat(time_point now) {
  DDPRUN_ASSERT(stage_ == stage::idle);
  stage_ = stage::beating;
  asked_at_ = now;
  return ++beat_seq_;
}

bool tether_link::acked(std::uint64_t seq, time_point now, duration heartbeat_interval) {
  time_point sent;
  if (seq == 0) {
    if (stage_ != stage::dialling) return false;
    // After a redial this may be the ack of an older hello, so count from the oldest.
    sent = hello_since_;
    attempts_ = 0;
  } else {
    if (stage_ != stage::beating || seq != beat_seq_) return false;
    sent = asked_at_;
  }
  stage_ = stage::idle;
  acked_at_ = now;
  // The interval counts from when the last beat was sent, so a slow ack does not stretch it.
  beat_due_ = sent + heartbeat_interval;
  leased_from_ = leased_from_ ? std::max(*leased_from_, sent) : sent;
  return true;
}

tether_link::moment tether_link::beat_deadline() const {
  return stage_ == stage::idle ? moment(beat_due_) : std::nullopt;
}

tether_link::moment tether_link::silence_deadline(duration limit) const {
  const bool is_asked = stage_ == stage::dialling || stage_ == stage::beating;
  return is_asked ? moment(asked_at_ + limit) : std::nullopt;
}

tether_link::moment tether_link::deadline(duration limit) const {
  return stage_ == stage::idle ? beat_deadline() : silence_deadline(limit);
}

bool held_tethers::is_other(const tether_hello& hello) const {
  const auto known = by_group_rank_.find(hello.group_rank);
  return known != by_group_rank_.end() && known->second.session != hello.session;
}

std::optional<std::uint64_t> held_tethers::attach(std::uint64_t tether, const tether_hello& hello) {
  DDPRUN_ASSERT(!is_other(hello));
  group_rank_holder& member = by_group_rank_[hello.group_rank];
  member.session = hello.session;
  std::optional<std::uint64_t> older;
  if (member.tether && open_.erase(*member.tether) > 0) older = member.tether;
  member.tether = tether;
  open_[tether] = {hello.group_rank, 0, std::nullopt};
  return older;
}

void held_tethers::ack(std::uint64_t tether, time_point now) {
  open_tether& link = open_.at(tether);
  link.acked = now;
  by_group_rank_.at(link.group_rank).acked = now;
}

held_tethers::beat_kind held_tethers::beat(std::uint64_t tether, const tether_beat& beat,
                                           time_point now) {
  const auto found = open_.find(tether);
  if (found == open_.end() || beat.seq <= found->second.beat_seq) return beat_kind::old;
  open_tether& link = found->second;
  link.beat_seq = beat.seq;
  if (!beat.succeeded) needed_at_ = now;
  // This beat proves that the ack was received, so the lease counts from when that was given. It
  // can be used only once.
  const moment since = std::exchange(link.acked, std::nullopt);
  moment& leased_from = by_group_rank_.at(link.group_rank).leased_from;
  if (!since || (leased_from && *since <= *leased_from)) return beat_kind::heard;
  if (leased_from) by_age_.erase({*leased_from, link.group_rank});
  leased_from = since;
  by_age_.insert({*since, link.group_rank});
  return beat_kind::renews;
}

bool held_tethers::let_go() {
  const bool had_any = !open_.empty();
  open_.clear();
  return had_any;
}

std::vector<tether_age> held_tethers::acks_before(time_point moment, time_point now) const {
  std::vector<tether_age> old;
  for (const auto& [group_rank, member] : by_group_rank_) {
    if (member.acked && *member.acked <= moment) old.push_back({group_rank, now - *member.acked});
  }
  std::stable_sort(old.begin(), old.end(),
                   [](const tether_age& a, const tether_age& b) { return a.age > b.age; });
  if (old.size() > tether_ages_max) old.resize(tether_ages_max);
  return old;
}

held_tethers::moment held_tethers::leased_from(std::uint32_t members) const {
  // All members have to agree, so the oldest of their leases counts.
  if (members == 0 || by_age_.size() < members) return std::nullopt;
  return by_age_.begin()->first;
}

// Which peers give this node its lease, since when, and what happens when none has done so for
// isolation_limit.
//
// The daemon relies on this (DESIGN.md): it starts the next round over an unreachable member
// isolation_limit after another member of the old round has let its tether go, and over an
// unreachable leader, and members that may depend on it, after twice that. All times here count
// from this node's own sending, so a delay on the way only makes this node give up sooner.

// Clocks may deviate by 1 %, so this node takes 2 % off. That a timer fires late and a kill takes a
// moment is in the daemon's margin (run/stop.hpp): with a node_timeout of 1 s the limit is 0.8 s,
// and taking off a tenth of a second more would cost a heartbeat that may be missed.
duration lease_limit(const timers& timing) {
  return timing.isolation_limit - timing.isolation_limit / 50;
}

// A connection without a message for this long is given up, in time for another one to help.
duration silence_limit(const timers& timing) {
  return timing.isolation_limit / 2;
}

// When the newest lease from other members of the round counts from; none: there is none.
std::optional<time_point> lease_of_round(const local_round& local, time_point now) {
  if (local.isolation.frozen()) return local.isolation.frozen();
  if (!local.is_on()) return std::nullopt;
  // A lone leader holds the tethers of all others, because there are none. That keeps workers alive
  // but starts none, because it does not show that the round is still wanted.
  if (local.is_alone()) return local.workers.living() > 0 ? std::optional(now) : std::nullopt;
  if (!local.is_leader()) return local.tether.leased_from();
  return local.held.leased_from(local.group_world_size() - 1);
}

std::optional<time_point> lease_of(const local_round& local, const daemon_link& daemon,
                                   time_point now) {
  const std::optional<time_point> others = lease_of_round(local, now);
  if (!others || !daemon.leased_from()) return others ? others : daemon.leased_from();
  return std::max(*others, *daemon.leased_from());
}

bool has_lease(const local_round& local, const daemon_link& daemon, const timers& timing,
               const machine_clock& clock) {
  const std::optional<time_point> last = lease_of(local, daemon, clock.real_now());
  return last && clock.real_now() < *last + lease_limit(timing);
}

// When the workers must end because no peer renews their lease; none: no end is due. A node that
// has succeeded has nothing to kill; as a leader it only stops acknowledging tethers.
std::optional<time_point> isolation_due(const local_round& local, const daemon_link& daemon,
                                        const timers& timing, const machine_clock& clock) {
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
  return lease_of(local, daemon, clock.real_now()).value_or(clock.real(local.began())) +
         lease_limit(timing);
}

// The other members' leases count only for as long as a daemon that cannot reach the round waits
// for it: after orphan_limit the next round starts. A tenth of that is left for clocks that
// deviate, and for the workers to end.
std::optional<time_point> orphan_due(const local_round& local, const daemon_link& daemon,
                                     const timers& timing, const machine_clock& clock) {
  if (local.workers.living() == 0 || local.workers.are_killed()) return std::nullopt;
  if (local.isolation.is_asked() || local.phase() == member_phase::succeeded) return std::nullopt;
  return daemon.leased_from().value_or(clock.real(local.began())) + timing.orphan_limit -
         timing.orphan_limit / 10;
}

std::optional<time_point> isolation_deadline(const local_round& local, const daemon_link& daemon,
                                             const timers& timing, const machine_clock& clock) {
  std::optional<time_point> due = isolation_due(local, daemon, timing, clock);
  const std::optional<time_point> orphan = orphan_due(local, daemon, timing, clock);
  if (orphan && (!due || *orphan < *due)) due = orphan;
  return local.isolation.put_off_from(due);
}

// Whether the workers should have ended by now.
bool has_lapsed(const local_round& local, const daemon_link& daemon, const timers& timing,
                const machine_clock& clock) {
  const auto is_past = [&clock](const std::optional<time_point>& due) {
    return due && clock.real_now() >= *due;
  };
  return is_past(isolation_due(local, daemon, timing, clock)) ||
         is_past(orphan_due(local, daemon, timing, clock));
}

void agent::state::lease_renewed() {
  if (!has_lapsed(local, daemon, timing, clock)) local.isolation.renewed_in_time();
}

void agent::state::on_isolation() {
  const moment alone_since = isolation_due(local, daemon, timing, clock);
  const bool is_isolated = alone_since && real_now >= *alone_since;
  const std::string text = is_isolated
                               ? isolation_text(daemon, local, endpoints_text, lease_limit(timing))
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
  if (const moment deadline = isolation_deadline(local, daemon, timing, clock); deadline) {
    local.isolation.put_off(std::min(*deadline + by, real_now + 2 * timing.heartbeat_interval));
  }
  clock.lose(by);
  set_time(real_now);
  // Send a status at once; a beat is due by now, too.
  if (by >= timing.heartbeat_interval) changed = true;
}

}  // namespace ddprun::core
