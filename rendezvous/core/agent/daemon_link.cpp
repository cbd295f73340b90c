// The session to the daemon: dialling with jitter, the hello with everything in it, one status per
// heartbeat and at once on any change, and giving up when there has been no daemon for too long.
#include "rendezvous/core/agent/daemon_link.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/core/agent/agent_state.hpp"
#include "rendezvous/core/messages/validation.hpp"
#include "rendezvous/core/messages/versions.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

void agent::state::handle(const daemon_connected& event) {
  daemon.connected(event.own_address, now);
  newest.connected();
  local.causes.connected();
  options.greeting.hosts_daemon = event.is_here;
  hello greeting = options.greeting;
  take_from_first(greeting.settings.timing, timing);  // those of the last welcome
  greeting.own_address = event.own_address;
  greeting.state = make_status();
  greeting.state.assignment = local.assignment();
  greeting.state.ran = local.ends.ran(now);
  // This node's own command line does not tell what opened an instance that may be another node's.
  if (job || local.instance() != 0) greeting.job = job;
  emit(send_to_daemon{std::move(greeting)});
}

void agent::state::handle(const daemon_disconnected& event) {
  daemon.failed(event.text);
  note_first_failure(event.text);
  connect_again();
}

// Notes the first failure only, because the next ones would say the same.
void agent::state::note_first_failure(const std::string& text) {
  if (daemon.was_confirmed() || daemon.has_tried()) return;
  note(note_level::info, "waiting for the rendezvous daemon at " + endpoints_text + ": " + text +
                             "; trying for " + to_text(timing.join_timeout));
}

// Daemons that know nothing of each other must not share the nodes of a run, so a node that one of
// them has welcomed stays with it. Daemons with an epoch know which of them decides.
void agent::state::connect_again(bool elsewhere) {
  const bool is_lost = daemon.is_confirmed();
  if (!daemon.was_in_session() || (!is_lost && newest.epoch() != 0)) elsewhere = true;
  if (elsewhere) endpoint_index = (endpoint_index + 1) % options.endpoints.size();
  const duration delay = jittered(daemon.ended(now, timing.reconnect_grace));
  if (is_lost)
    note(note_level::warning,
         lost_daemon_text(search(), timing,
                          options.may_host &&
                              may_host_at(daemon, shutdown, timing, now + timing.reconnect_grace)));
  emit(connect_daemon{delay, endpoint_index, may_host_at(daemon, shutdown, timing, now + delay),
                      job});
  leave_if_drained();
}

// The process that held the lost daemon may start it again, and has as long for that as a daemon
// waits for its agents. An agent that is leaving opens none, because the daemon would leave with
// it.
bool may_host_at(const daemon_link& daemon, const shutdown_state& shutdown, const timers& timing,
                 machine_time moment) {
  if (shutdown.is_draining()) return false;
  return !daemon.was_in_session() || moment >= daemon.apart_since() + timing.reconnect_grace;
}

void agent::state::drop_daemon(std::string text, bool elsewhere) {
  daemon.failed(std::move(text));
  emit(disconnect_daemon{});
  connect_again(elsewhere);
}

void agent::state::welcomed_by(const welcome& message) {
  if (newest.is_older(message.epoch)) {
    drop_daemon("a daemon of an older epoch answered");
    return;
  }
  if (const std::string problem = problem_of(message); !problem.empty()) {
    drop_daemon("its answer is invalid: " + problem);
    return;
  }
  newest.enter_epoch(message.epoch);
  daemon.welcomed();
  has_been_turned_away = false;
  warn_of_version(message.version);
  const duration own = options.greeting.settings.timing.drain_grace;
  if (message.timing.drain_grace != own && message.timing.drain_grace != timing.drain_grace) {
    note(note_level::warning,
         "workers here have " + to_text(message.timing.drain_grace) +
             " to end after a signal to their launcher, as on the node of this run that came "
             "first, and not " +
             to_text(own) + " (--shutdown-timeout, TORCH_ELASTIC_SHUTDOWN_TIMEOUT)");
  }
  timing = message.timing;
  // A node in no instance cannot tell a daemon how far that instance had come, so any message
  // counts.
  if (local.instance() == 0) newest.forget_instance();
}

// The daemon has sent something usable since its welcome.
void agent::state::confirm_session() {
  if (!daemon.is_in_session() || daemon.is_confirmed()) return;
  if (daemon.was_confirmed()) {
    note(note_level::info, "reached the rendezvous daemon at " + endpoints_text + " again, after " +
                               to_text(now - daemon.apart_since()));
  }
  daemon.confirmed();
}

// Warns once for each version that it meets.
void agent::state::warn_of_version(const std::string& daemons) {
  if (std::exchange(daemon_version, daemons) == daemons) return;
  const std::string text = version_warning("this node", options.greeting.version, daemons);
  if (!text.empty()) note(note_level::warning, text);
}

void agent::state::acked_by(const ack& message) {
  const moment sent = daemon.acked(message.seq);
  if (!sent) return;
  confirm_session();
  local.causes.acked(message.seq);
  // This loop stood still, so its lease has not been renewed for too long, and the round may have
  // gone on without it. A daemon that has just been started acknowledges every agent; only one that
  // has named this round knows better.
  if (has_lapsed(local, daemon, timing, clock) && !newest.names(local.instance(), local.number()))
    return;
  daemon.renew_lease(*sent);
  lease_renewed();
  spawn_when_leased();
}

void agent::state::refused_by(const refused& message) {
  const int code = message.exit_code == 0 ? refused_exit_code : message.exit_code;
  note(note_level::error,
       "the rendezvous daemon at " + endpoints_text + " refused this node: " + message.text);
  daemon.hung_up();
  emit(disconnect_daemon{});
  // Any other code is the whole run's, and all its nodes are told the same.
  const bool is_of_node = code == refused_exit_code;
  shutdown.leave_with({code, message.text, std::nullopt,
                       is_of_node ? leave_reason::refused : leave_reason::run_over});
  // The daemon does not want what runs here. There is no grace, because a polite stop could save an
  // old snapshot.
  take_down(force::kill);
}

// This is no reason to exit: the daemon that decides is at another endpoint, or will be here.
void agent::state::turned_away_by(const not_primary& message) {
  if (!has_been_turned_away) {
    note(note_level::info, "the rendezvous daemon at " + endpoints_text +
                               " turned this node away: " + message.text + "; trying again");
  }
  has_been_turned_away = true;
  drop_daemon(message.text, newest.epoch() != 0);
}

status agent::state::make_status() {
  status value;
  value.seq = daemon.send_status(real_now);
  value.epoch = newest.epoch();
  local.tell(value);
  if (local.phase() == member_phase::running) value.stall = local.stall.tell(real_now);
  value.round_told = newest.round_in(local.instance(), local.number());
  value.desired_seq = newest.seq_in(local.instance());
  value.restarts_used = restarts_used;
  value.restarts_forgiven = restarts_forgiven;
  value.unhealthy = unhealthy;
  value.draining = shutdown.is_draining();
  value.signal = shutdown.signal();
  value.causes = local.causes.tell(value.seq, real_now);
  value.tether_ages = stale_tethers(local, timing, real_now);
  changed = false;
  return value;
}

// On the way to `running` the daemon waits for none of the steps, and there may be 10,000 nodes, so
// the next heartbeat reports how far this one is.
bool has_news(const local_round& local, bool changed) {
  if (local.phase() == member_phase::assigned || local.phase() == member_phase::starting)
    return false;
  return changed && (local.phase() != member_phase::preparing || local.service_port() != 0);
}

void agent::state::send_status_if_due() {
  const moment due = daemon.status_due(timing.heartbeat_interval);
  if (!due || (!has_news(local, changed) && real_now < *due)) return;
  emit(send_to_daemon{make_status()});
}

// Workers with a lease never die because the daemon is dead; a node without workers gives up in the
// end.
std::optional<time_point> join_deadline(const local_round& local, const daemon_link& daemon,
                                        const timers& timing, const machine_clock& clock) {
  if (daemon.is_in_session() || local.workers.living() > local.workers.unkillable())
    return std::nullopt;
  time_point since = clock.real(daemon.apart_since());
  if (local.is_on() && local.phase() != member_phase::succeeded) return std::nullopt;
  // Its leader still acknowledged then; or other members still needed this leader's tethers and
  // store.
  if (local.tether.leased_from()) since = std::max(since, *local.tether.leased_from());
  if (local.held.needed_at()) since = std::max(since, *local.held.needed_at());
  return since + timing.join_timeout;
}

daemon_search agent::state::search() const {
  return {daemon,
          endpoints_text,
          orphan_due(local, daemon, timing, clock),
          join_deadline(local, daemon, timing, clock),
          now,
          real_now};
}

void agent::state::on_daemon_silent() {
  drop_daemon(daemon.is_in_session()
                  ? "nothing was heard for " + to_text(silence_limit(timing))
                  : "connected, but it has not answered for " + to_text(silence_limit(timing)));
}

void agent::state::on_no_daemon() {
  const bool done = local.phase() == member_phase::succeeded && local.is_alone();
  finish({done ? 0 : unmet_exit_code, unreachable_text(daemon, local, endpoints_text, now),
          std::nullopt, done ? leave_reason::run_over : leave_reason::unmet});
}

// Between half and one and a half of `value`, by splitmix64.
duration agent::state::jittered(duration value) {
  random += 0x9e3779b97f4a7c15ULL;
  std::uint64_t mixed = random;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  mixed ^= mixed >> 31;
  return value / 2 + value / 1024 * static_cast<std::int64_t>(mixed % 1024);
}

void daemon_link::connected(std::string own_address, machine_time now) {
  is_connected_ = true;
  is_in_session_ = false;
  is_confirmed_ = false;
  heard_ = now;
  own_address_ = std::move(own_address);
  // An ack of a status of an earlier connection cannot come any more.
  unacked_.clear();
}

void daemon_link::welcomed() {
  DDPRUN_ASSERT(is_connected_);
  is_in_session_ = true;
  was_in_session_ = true;
}

void daemon_link::confirmed() {
  DDPRUN_ASSERT(is_in_session_);
  is_confirmed_ = true;
  was_confirmed_ = true;
  attempts_ = 0;
}

duration daemon_link::ended(machine_time now, duration reconnect_grace) {
  if (is_confirmed_) apart_since_ = now;
  hung_up();
  // The first try comes soon, because reconnect_grace runs; later ones are slower, and jittered so
  // that not all nodes dial at once.
  const duration step = reconnect_grace / 8;
  const duration longest = std::min<duration>(reconnect_grace / 2, std::chrono::seconds(1));
  const unsigned doublings = std::min(attempts_, 10U);
  ++attempts_;
  return std::min<duration>(longest, step * (1U << doublings));
}

void daemon_link::hung_up() {
  is_connected_ = false;
  is_in_session_ = false;
  is_confirmed_ = false;
}

void daemon_link::is_idle(machine_time now) {
  if (!is_confirmed_) apart_since_ = std::max(apart_since_, now);
}

std::uint64_t daemon_link::send_status(time_point now) {
  DDPRUN_ASSERT(is_connected_);
  ++status_seq_;
  // If too many wait for an ack, the newest is not remembered, which can only make a lease shorter.
  if (unacked_.size() < unacked_statuses_max) unacked_.push_back({status_seq_, now});
  status_at_ = now;
  return status_seq_;
}

daemon_link::moment daemon_link::acked(std::uint64_t seq) {
  moment sent;
  while (!unacked_.empty() && unacked_.front().seq <= seq) {
    sent = unacked_.front().at;
    unacked_.pop_front();
  }
  return seq > status_seq_ ? std::nullopt : sent;
}

void daemon_link::renew_lease(time_point sent) {
  if (!leased_from_ || sent > *leased_from_) leased_from_ = sent;
}

daemon_link::moment daemon_link::status_due(duration heartbeat_interval) const {
  if (!is_in_session_) return std::nullopt;
  return status_at_ + heartbeat_interval;
}

// After a path has healed, a new connection gets through sooner than an old one's retransmissions.
std::optional<machine_time> daemon_link::silence_deadline(duration limit) const {
  if (!is_connected_) return std::nullopt;
  return heard_ + limit;
}

}  // namespace ddprun::core
