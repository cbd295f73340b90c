// The session to the daemon: dialling with jitter, the hello with everything in it, one status per
// heartbeat and at once on any change, and giving up when there has been no daemon for too long.
#include "rendezvous/core/agent/state.hpp"

#include <algorithm>

namespace ddprun::core {

void agent::state::handle(const daemon_connected& event) {
  daemon.connected = true;
  daemon.welcomed = false;
  daemon.heard = now;
  daemon.own_address = event.own_address;
  // An answer to a status of an earlier connection cannot come any more.
  daemon.unanswered.clear();
  connection_seq = 0;
  daemon.named_instance = 0;
  daemon.named_round = 0;
  tail_seq = 0;
  tail_told = false;
  hello greeting = options.greeting;
  greeting.own_address = event.own_address;
  greeting.hosts_daemon = options.hosts_daemon;
  greeting.state = make_status();
  greeting.state.place = place;
  emit(send_to_daemon{std::move(greeting)});
}

void agent::state::handle(const daemon_disconnected& event) {
  daemon.error = event.text;
  if (!daemon.was_welcomed && daemon.attempts == 0) {
    note(note_level::info, "waiting for the rendezvous daemon at " + options.endpoint + ": " +
                               event.text + "; trying for " + to_text(timing.join_timeout));
  }
  connect_again();
}

void agent::state::connect_again() {
  if (daemon.welcomed) {
    daemon.unwelcomed_since = now;
    note(note_level::warning, "lost the rendezvous daemon at " + options.endpoint + " (" +
                                  daemon.error + "); trying again");
  }
  daemon.connected = false;
  daemon.welcomed = false;
  daemon.unanswered.clear();
  // The first try is soon, because reconnect_grace runs; then slower, and never all at once.
  const duration step = timing.reconnect_grace / 8;
  const duration longest = std::min<duration>(timing.reconnect_grace / 2, std::chrono::seconds(1));
  const unsigned doublings = std::min(daemon.attempts, 10U);
  ++daemon.attempts;
  emit(connect_daemon{jittered(std::min<duration>(longest, step * (1U << doublings)))});
  leave_if_drained();
}

void agent::state::drop_silent_daemon(std::string text) {
  daemon.error = std::move(text);
  emit(disconnect_daemon{});
  connect_again();
}

void agent::state::welcomed_by(const welcome& message) {
  if (message.epoch < epoch) {
    drop_silent_daemon("a daemon of an older epoch answered");
    return;
  }
  // Values that would make this machine spin or never wait are no timers.
  if (const std::string problem = problem_of(message.timing); !problem.empty()) {
    drop_silent_daemon("its welcome is of no use: " + problem);
    return;
  }
  epoch = message.epoch;
  if (daemon.was_welcomed) {
    note(note_level::info, "reached the rendezvous daemon at " + options.endpoint +
                               " again, after " + to_text(now - daemon.unwelcomed_since));
  }
  daemon.welcomed = true;
  daemon.was_welcomed = true;
  daemon.attempts = 0;
  timing = message.timing;
  // In no instance, this node cannot tell a daemon how far that instance had come: any word counts.
  if (instance == 0) {
    told_instance = 0;
    told_round = 0;
  }
}

void agent::state::answered_by(const answer& message) {
  moment sent;
  while (!daemon.unanswered.empty() && daemon.unanswered.front().seq <= message.seq) {
    sent = daemon.unanswered.front().at;
    daemon.unanswered.pop_front();
  }
  if (!sent || message.seq > daemon.status_seq) return;
  if (tail_seq != 0 && message.seq >= tail_seq) tail_told = true;
  // Nobody has vouched for too long, as this loop stood still: the round may have gone on without
  // this node, and a daemon that has just been started answers everybody. Only one that knows the
  // round knows better.
  const bool knows_round = daemon.named_instance == instance && daemon.named_round == round;
  if (has_lapsed() && !knows_round) return;
  if (!daemon.vouched || *sent > *daemon.vouched) daemon.vouched = sent;
  vouched_anew();
  spawn_when_vouched();
}

void agent::state::refused_by(const refused& message) {
  const int code = message.exit_code == 0 ? 64 : message.exit_code;
  note(note_level::error,
       "the rendezvous daemon at " + options.endpoint + " refused this node: " + message.text);
  daemon.connected = false;
  daemon.welcomed = false;
  emit(disconnect_daemon{});
  leaving = core::leave{code, message.text, std::nullopt};
  // Whatever runs here, the daemon does not want it: a polite stop could save an old snapshot.
  take_down(force::kill);
}

status agent::state::make_status() {
  status value;
  value.seq = ++daemon.status_seq;
  value.instance = instance;
  value.round = round;
  value.round_told =
      instance != 0 && instance == told_instance ? std::max(round, told_round) : round;
  value.desired_seq = instance != 0 && instance == told_instance ? told_seq : 0;
  value.phase = phase;
  value.service_port = service_port;
  value.master_port = master_port;
  value.nccl_ids = nccl_ids;
  value.restarts_used = restarts_used;
  value.unkillable = unkillable;
  value.succeeded = all_succeeded && phase == member_phase::stopped;
  value.draining = draining;
  value.signal = signal;
  for (const seen_cause& seen : causes) {
    value.causes.push_back(seen.cause);
    value.causes.back().age = now - seen.at;
  }
  // Up to 4 KiB, and a heartbeat is sent each second until the round is forgotten.
  if (!value.causes.empty() && !value.causes.front().tail.empty()) {
    if (tail_told) value.causes.front().tail.clear();
    if (tail_seq == 0) tail_seq = value.seq;
  }
  // Where too many are unanswered the newest is not remembered: that only makes vouching shorter.
  if (daemon.unanswered.size() < unanswered_statuses_max) {
    daemon.unanswered.push_back({value.seq, now});
  }
  daemon.status_at = now;
  changed = false;
  return value;
}

// On the way to `running` the daemon waits for none of the steps, and there are 10,000 of us: the
// next heartbeat says how far it is.
bool agent::state::has_news() const {
  if (phase == member_phase::assigned || phase == member_phase::starting) return false;
  return changed && (phase != member_phase::preparing || service_port != 0);
}

void agent::state::send_status_if_due() {
  if (!daemon.welcomed) return;
  if (!has_news() && now < daemon.status_at + timing.heartbeat_interval) return;
  emit(send_to_daemon{make_status()});
}

// A path that healed is found sooner by a new connection than by an old one's retransmissions.
agent::state::moment agent::state::daemon_silence_deadline() const {
  if (!daemon.connected) return std::nullopt;
  return daemon.heard + silence_limit();
}

// Workers that somebody vouches for never die of a dead daemon; who has none gives up in the end.
agent::state::moment agent::state::join_deadline() const {
  if (daemon.welcomed || living > unkillable) return std::nullopt;
  time_point since = daemon.unwelcomed_since;
  if (in_round() && phase != member_phase::succeeded) return std::nullopt;
  // Its leader still answered then; or others still ran on this leader's tethers and store.
  if (tether.vouched) since = std::max(since, *tether.vouched);
  if (held.needed_at) since = std::max(since, *held.needed_at);
  return since + timing.join_timeout;
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

}  // namespace ddprun::core
