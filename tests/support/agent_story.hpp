// An agent story feeds an agent's machine with events in simulated time, and shows what it does:
// the latest status that it sent, the effects of a kind, and how it left.
//
// The story plays the daemon, the leader and the other members as far as a test enables them: with
// `daemon_acks` each status is answered at once, with `leader_acks` each beat, and members beat
// again after each answer. Nothing else answers by itself.
#pragma once

#include "rendezvous/core/agent/agent_machine.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tests {

class agent_story {
 public:
  static constexpr time_point origin{std::chrono::hours(1000)};
  static constexpr instance_id instance = 77;

  explicit agent_story(core::agent_options options = default_options())
      : machine_(std::move(options)) {
    core::agent_effects effects;
    machine_.start(now_, effects);
    play(std::move(effects));
  }

  static core::agent_options default_options() {
    core::agent_options options;
    options.greeting.run_id = "story";
    options.greeting.session = {7, 1};
    options.greeting.node = "node-b";
    options.greeting.worker_count = 2;
    options.endpoints = {"10.0.0.100:29400"};
    options.seed = 5;
    return options;
  }

  void tell(const core::agent_event& event) {
    core::agent_effects effects;
    machine_.step(event, now_, effects);
    play(std::move(effects));
  }

  // Advances the clock, and delivers `time_passed` at each deadline of the machine.
  void pass(duration by) {
    const time_point until = now_ + by;
    while (true) {
      const std::optional<time_point> next = machine_.next_deadline();
      if (!next || *next > until) break;
      if (*next > now_) now_ = *next;
      tell(core::agent_time_passed{});
    }
    now_ = until;
  }
  // Advances the clock while the machine stands still.
  void freeze(duration by) { now_ += by; }

  void say(daemon_message message) {
    tell(core::daemon_said{std::make_shared<const daemon_message>(std::move(message))});
  }
  void ack_status() { say(ack{sent.seq}); }
  void connect() {
    tell(core::daemon_connected{"10.0.0.2", daemon_is_here});
    welcome words;
    words.epoch = epoch;
    words.timing = timing;
    say(words);
    if (daemon_acks) ack_status();
  }
  void lose_daemon(std::string text = "Connection refused") {
    tell(core::daemon_disconnected{std::move(text)});
  }

  desired order(desired_phase phase, round_number round) {
    desired value;
    value.epoch = epoch;
    value.instance = instance;
    value.round = round;
    value.seq = ++desired_seq;
    value.phase = phase;
    value.grace = timing.stop_grace;
    return value;
  }
  void want(desired_phase phase, round_number round) { say(order(phase, round)); }
  void assign(round_number round, std::uint32_t group_rank, std::uint32_t nodes) {
    desired value = order(desired_phase::run, round);
    value.assignment = assignment{group_rank, nodes,       group_rank * 2, nodes * 2, "10.0.0.1",
                                  29501,      tether_port, "node-a",       {}};
    say(value);
  }
  void prepare(round_number round, std::uint32_t nodes) {
    desired value = order(desired_phase::prepare, round);
    value.group_world_size = nodes;
    value.world_size = nodes * 2;
    say(value);
    tell(core::service_opened{round, tether_port, 29501, {}});
  }

  // Both workers run in round 1, on a member (group rank 1 of `nodes`) or on the leader.
  void run_as_member(std::uint32_t nodes = 2) {
    connect();
    assign(1, 1, nodes);
    reach_leader();
    tell(core::workers_started{1});
  }
  void run_as_leader(std::uint32_t nodes) {
    connect();
    prepare(1, nodes);
    assign(1, 0, nodes);
    tell(core::workers_started{1});
    for (std::uint32_t group_rank = 1; group_rank < nodes; ++group_rank)
      attach(group_rank, 100 + group_rank);
  }
  void reach_leader() {
    tell(core::tether_connected{machine_.round()});
    tell(core::tether_acked{machine_.round(), 0});
  }
  void attach(std::uint32_t group_rank, std::uint64_t tether) {
    tell(core::member_attached{tether, {instance, machine_.round(), {9, group_rank}, group_rank}});
  }

  void worker_succeeds(std::uint32_t local_rank) {
    tell(core::worker_ended{machine_.round(), local_rank, true, {}});
  }
  static cause cause_of(cause_class kind, int code, duration age = {}, std::string tail = {}) {
    cause why;
    why.kind = kind;
    why.code = code;
    why.age = age;
    why.tail = std::move(tail);
    return why;
  }
  void worker_fails(std::uint32_t local_rank, int code = 3) {
    worker_fails(local_rank, cause_of(cause_class::exit, code));
  }
  void worker_fails(std::uint32_t local_rank, const cause& why) {
    tell(core::worker_ended{machine_.round(), local_rank, false, why});
  }
  void worker_ends_by(std::uint32_t local_rank, int signal, duration age = {}) {
    worker_fails(local_rank, cause_of(cause_class::signal, signal, age));
  }
  void workers_end_by_signal(int signal) {
    for (std::uint32_t local_rank = 0; local_rank < 2; ++local_rank)
      worker_ends_by(local_rank, signal);
  }

  // The effects since the last `forget`.
  template <typename T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const core::agent_effect& effect : effects_) {
      if (const T* const one = std::get_if<T>(&effect)) found.push_back(*one);
    }
    return found;
  }
  template <typename T>
  bool did() const {
    return !all<T>().empty();
  }
  // The position of the first effect of a kind, for comparing orders.
  template <typename T>
  std::size_t index_of() const {
    std::size_t index = 0;
    while (index < effects_.size() && !std::holds_alternative<T>(effects_[index]))
      ++index;
    return index;
  }
  bool said_goodbye() const {
    for (const auto& one : all<core::send_to_daemon>()) {
      if (std::holds_alternative<goodbye>(one.message)) return true;
    }
    return false;
  }
  void forget() { effects_.clear(); }

  core::agent& machine() { return machine_; }
  time_point now() const { return now_; }

  timers timing;
  bool daemon_acks = true;
  bool daemon_is_here = false;  // within the agent's own process
  bool leader_acks = true;
  std::map<std::uint64_t, bool> silent_members;  // tethers that no longer beat
  bool members_succeeded = false;                // what their beats say
  std::uint16_t tether_port = 29500;
  std::uint64_t epoch = 0;  // the daemon's
  std::uint64_t desired_seq = 0;
  status sent;    // the latest
  hello greeted;  // the latest
  std::size_t statuses = 0;
  std::optional<core::leave> left;

 private:
  void play(core::agent_effects effects) {
    for (const core::agent_effect& effect : effects)
      effects_.push_back(effect);
    for (const core::agent_effect& effect : effects)
      std::visit([this](const auto& one) { react(one); }, effect);
  }
  template <typename T>
  void react(const T&) {}
  void react(const core::leave& effect) { left = effect; }
  void react(const core::send_to_daemon& effect) {
    if (const auto* const first = std::get_if<hello>(&effect.message)) {
      greeted = *first;
      sent = first->state;
    }
    if (const auto* const next = std::get_if<status>(&effect.message)) {
      sent = *next;
      ++statuses;
      if (daemon_acks) ack_status();
    }
  }
  void react(const core::send_tether_beat& effect) {
    if (leader_acks) tell(core::tether_acked{machine_.round(), effect.beat.seq});
  }
  void react(const core::ack_member& effect) {
    // A member beats again one heartbeat later, which here is at the next status, without a clock.
    if (!silent_members[effect.tether]) waiting_beats_[effect.tether] = effect.seq + 1;
  }

 public:
  // Every attached member that was answered sends its next beat.
  void members_beat() {
    const std::map<std::uint64_t, std::uint64_t> beats = std::exchange(waiting_beats_, {});
    for (const auto& [tether, seq] : beats)
      tell(core::member_beat{tether, {seq, members_succeeded}});
  }
  // Time passes, with beats of all members that are not silent.
  void pass_with_members(duration by) {
    for (duration gone{}; gone < by; gone += timing.heartbeat_interval) {
      pass(timing.heartbeat_interval);
      members_beat();
    }
  }

 private:
  time_point now_ = origin;
  core::agent machine_;
  core::agent_effects effects_;
  std::map<std::uint64_t, std::uint64_t> waiting_beats_;
};

}  // namespace ddprun::tests
