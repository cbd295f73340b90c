// Both ends of the tether.
//
// A member sends its next beat only once the last one was acknowledged. So a beat tells the leader
// that the member got the previous ack, and the leader can count from when it gave that ack. Both
// ends count from their own sending, and no delay on the way makes either believe in a lease for
// too long.
#include "rendezvous/base/error.hpp"
#include "rendezvous/core/agent/agent_state.hpp"
#include "rendezvous/core/agent/held_tethers.hpp"
#include "rendezvous/core/agent/tether_link.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

session_id agent::state::own_tether_session() const {
  return options.tether_session == session_id{} ? options.greeting.session : options.tether_session;
}

void agent::state::dial(duration delay) {
  local.tether.dial(real_now, delay);
  const assignment& assigned = *local.assignment();
  emit(dial_tether{local.number(), assigned.master_address, assigned.tether_port, delay,
                   tether_hello{local.instance(), local.number(), own_tether_session(),
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
std::optional<machine_time> agent::state::reach_deadline() const {
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
  dial_again("no answer for " + to_text(silence_limit()));
}

bool agent::state::accepts_tethers() const {
  return local.is_leader() && local.phase() != member_phase::stopping && local.has_service();
}

std::string agent::state::why_not_held(const tether_hello& hello) const {
  const std::string of_round = "round " + std::to_string(hello.round);
  if (!accepts_tethers() || hello.round != local.number() || hello.instance != local.instance()) {
    return of_round + " is not running at node " + options.greeting.node;
  }
  if (hello.group_rank == 0 || hello.group_rank >= local.group_world_size()) {
    return of_round + " has no member " + std::to_string(hello.group_rank);
  }
  if (!local.held.is_other(hello)) return "";
  return "member " + std::to_string(hello.group_rank) + " of " + of_round + " is another agent";
}

void agent::state::handle(const member_attached& event) {
  if (std::string refusal = why_not_held(event.hello); !refusal.empty()) {
    emit(refuse_member{event.tether, std::move(refusal)});
    return;
  }
  // The member may have dialled again before this side has noticed that its old connection is
  // broken.
  if (const auto older = local.held.attach(event.tether, event.hello)) {
    emit(refuse_member{*older, "a newer tether of the same member has connected"});
  }
  // A leader without a lease must not give any.
  if (has_lease()) ack_tether(event.tether, 0);
}

void agent::state::handle(const member_beat& event) {
  const auto kind = local.held.beat(event.tether, event.beat, real_now);
  if (kind == held_tethers::beat_kind::old) return;
  if (kind == held_tethers::beat_kind::renews) {
    lease_renewed();
    spawn_when_leased();
  }
  // As above, no ack without a lease.
  if (accepts_tethers() && has_lease()) ack_tether(event.tether, event.beat.seq);
}

void agent::state::ack_tether(std::uint64_t tether, std::uint64_t seq) {
  local.held.ack(tether, real_now);
  emit(ack_member{tether, seq});
}

// A node that the daemon cannot reach had its lease from these tethers, and the daemon need not
// wait for what is past already. Nothing is said before all are let go, because another ack may
// follow.
std::vector<tether_age> agent::state::stale_tethers() const {
  const bool has_let_go =
      local.phase() == member_phase::stopping || local.phase() == member_phase::stopped;
  if (!has_let_go || local.tether.is_wanted() || local.held.open() > 0) return {};
  const time_point old = real_now - 2 * timing.heartbeat_interval;
  if (const auto& acked = local.tether.acked_at(); acked && *acked <= old) {
    return {{0, real_now - *acked}};
  }
  return local.held.acks_before(old, real_now);
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

}  // namespace ddprun::core
