// A run story feeds a run's machine with the events of its agents, in simulated time, and shows
// what each agent was last told.
//
// A `fake_node` stands for an agent by its messages: it holds the status that it would send. The
// story applies every effect to the nodes, so that `node.wanted` is the latest desired state.
#pragma once

#include "rendezvous/core/run/run_machine.hpp"

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tests {

struct fake_node {
  hello greeting;
  status state;
  connection_id connection = 0;  // 0: not connected
  std::string peer_address = "10.0.0.1";
  std::string local_address = "10.0.0.100";

  // What the daemon has sent.
  desired wanted;
  std::uint64_t answered = 0;
  bool answered_before_wanted = false;  // an answer came while `wanted` was still empty
  std::size_t desired_count = 0;
  std::string refusal;
  int refusal_code = 0;
  std::vector<round_report> reports;
  const void* wanted_buffer = nullptr;
};

class run_story {
 public:
  explicit run_story(core::run_options options = {}, instance_id first_instance = 100)
      : run_id_(options.run_id.empty() ? "story" : options.run_id),
        next_instance_(first_instance),
        run_(with_name(std::move(options))) {}

  static constexpr time_point origin{std::chrono::hours(1000)};

  // A new process on host `host`, not connected yet.
  fake_node& node(const std::string& host, const run_settings& settings,
                  std::uint32_t worker_count = 2) {
    fake_node& made = nodes_.emplace_back();
    const auto number = static_cast<std::uint64_t>(nodes_.size());
    made.greeting.run_id = run_id_;
    made.greeting.session = {7, ++session_};
    made.greeting.node = host;
    made.greeting.host = host;
    made.greeting.worker_count = worker_count;
    made.greeting.settings = settings;
    made.peer_address = "10.0.0." + std::to_string(number);
    made.greeting.own_address = made.peer_address;
    return made;
  }

  fake_node& joined(const std::string& host, const run_settings& settings,
                    std::uint32_t worker_count = 2) {
    fake_node& made = node(host, settings, worker_count);
    connect(made);
    return made;
  }

  void connect(fake_node& who) {
    who.connection = ++connection_;
    who.refusal.clear();
    ++who.state.seq;
    who.greeting.state = who.state;
    step(core::agent_joined{who.connection, who.greeting, who.peer_address, who.local_address,
                            next_instance_});
    if (run_.view(now).instance == next_instance_) ++next_instance_;
  }

  // Sends the node's current status.
  void say(fake_node& who) {
    ++who.state.seq;
    step(core::status_received{who.connection, who.state});
  }

  void say(fake_node& who, member_phase phase) {
    obey(who);
    who.state.phase = phase;
    say(who);
  }

  void beat_all() {
    for (fake_node& who : nodes_) {
      if (who.connection != 0) say(who);
    }
  }

  void disconnect(fake_node& who) {
    step(core::agent_disconnected{std::exchange(who.connection, 0)});
  }
  void goodbye(fake_node& who) { step(core::goodbye_received{std::exchange(who.connection, 0)}); }
  void guardian(const fake_node& who) { step(core::guardian_reported{who.greeting.session}); }

  // Advances the clock by `by`, stopping at every deadline. All nodes but `silent` ones send beats.
  void pass(duration by, const std::vector<const fake_node*>& silent = {}) {
    const time_point end = now + by;
    const duration beat = std::chrono::milliseconds(500);
    time_point next_beat = now + beat;
    while (now < end) {
      time_point next = std::min(end, next_beat);
      if (const auto deadline = run_.next_deadline()) {
        next = std::min(next, std::max(*deadline, now + std::chrono::microseconds(1)));
      }
      now = next;
      if (now == next_beat) {
        next_beat += beat;
        for (fake_node& who : nodes_) {
          bool speaks = who.connection != 0;
          for (const fake_node* const one : silent)
            speaks = speaks && one != &who;
          if (speaks) say(who);
        }
      }
      step(core::time_passed{});
    }
  }

  // The leader opens its service, and every member gets as far as running.
  void start_round() {
    fake_node& leader = node_in(desired_phase::prepare);
    obey(leader);
    leader.state.phase = member_phase::preparing;
    leader.state.assignment.reset();
    say(leader);
    leader.state.service_port = leader.state.master_port = 29501;
    say(leader);
    for (fake_node& who : nodes_) {
      if (who.connection == 0 || who.wanted.phase != desired_phase::run) continue;
      if (who.state.round == who.wanted.round && who.state.phase == member_phase::running) continue;
      for (const member_phase phase :
           {member_phase::assigned, member_phase::starting, member_phase::running}) {
        obey(who);
        who.state.assignment = who.wanted.assignment;
        say(who, phase);
      }
    }
  }

  // Every node that was told to stop does so.
  void stop_all() {
    for (fake_node& who : nodes_) {
      if (who.connection == 0 || who.wanted.phase != desired_phase::stop) continue;
      say(who, member_phase::stopping);
      say(who, member_phase::stopped);
    }
  }

  // A cause in this node's round, of its first worker if it has an assignment.
  static cause cause_of(const fake_node& who, cause_class kind, int code = 0) {
    cause why;
    why.round = who.state.round;
    why.node = who.greeting.node;
    why.kind = kind;
    why.code = code;
    if (const auto& assigned = who.state.assignment) {
      why.group_rank = assigned->group_rank;
      why.local_rank = 0;
      why.rank = assigned->rank_first;
    }
    return why;
  }

  void fail(fake_node& who, int exit_status) {
    who.state.causes = {cause_of(who, cause_class::exit, exit_status)};
    say(who, member_phase::failed);
  }

  void ask_to_leave(fake_node& who, int signal) {
    who.state.draining = true;
    who.state.signal = signal;
    say(who);
  }

  // Obeys `wanted`: takes over its instance, round and number.
  static void obey(fake_node& who) {
    const desired& wanted = who.wanted;
    if (wanted.instance == 0 || wanted.seq <= who.state.desired_seq) return;
    const bool new_round = wanted.phase == desired_phase::prepare ||
                           (wanted.phase == desired_phase::run && wanted.round != who.state.round);
    who.state.instance = wanted.instance;
    who.state.desired_seq = wanted.seq;
    who.state.restarts_used = wanted.restarts_used;
    if (new_round) {
      who.state.round = wanted.round;
      who.state.causes.clear();
      who.state.ends.clear();
      who.state.service_port = who.state.master_port = 0;
    }
  }

  // After a fence: all workers are killed, and the node joins again.
  void rejoin(fake_node& who) {
    const std::uint64_t seq = who.state.seq;
    who.state = {};
    who.state.seq = seq;
    say(who);
  }

  fake_node& node_in(desired_phase phase) {
    for (fake_node& who : nodes_) {
      if (who.connection != 0 && who.wanted.phase == phase) return who;
    }
    throw std::logic_error("no node was told to " + std::string(to_string(phase)));
  }

  void step(const core::run_event& event) {
    core::run_effects effects;
    run_.step(event, now, effects);
    for (const core::run_effect& effect : effects) {
      if (const auto* sent = std::get_if<core::send_to_agent>(&effect)) deliver(*sent);
      if (const auto* cut = std::get_if<core::disconnect_agent>(&effect)) {
        if (fake_node* who = find(cut->connection)) who->connection = 0;
      }
      if (const auto* note = std::get_if<core::run_note>(&effect)) notes.push_back(note->text);
      if (const auto* asked = std::get_if<core::persist_record>(&effect)) {
        kept = asked->record;
        revision = asked->revision;
        ++times_kept;
      }
    }
    if (disk_answers) disk_answers_now();
  }

  // Every record that was requested is persisted.
  void disk_answers_now() {
    if (std::exchange(told_revision, revision) != revision) step(core::record_persisted{revision});
  }

  core::run& machine() { return run_; }
  core::run_view view() const { return run_.view(now); }
  std::string why() const { return run_.why(now); }
  core::run_sizes sizes() const { return run_.sizes(); }

  time_point now = origin;
  std::vector<std::string> notes;
  std::optional<core::run_record> kept;  // the last record to persist
  std::uint64_t revision = 0;
  std::uint64_t told_revision = 0;
  std::size_t times_kept = 0;
  bool disk_answers = true;  // at once

 private:
  static core::run_options with_name(core::run_options options) {
    if (options.run_id.empty()) options.run_id = "story";
    options.version = "test";
    return options;
  }

  fake_node* find(connection_id connection) {
    for (fake_node& who : nodes_) {
      if (who.connection == connection) return &who;
    }
    return nullptr;
  }

  void deliver(const core::send_to_agent& sent) {
    fake_node* const who = find(sent.connection);
    if (who == nullptr) throw std::logic_error("a message to a connection that is gone");
    if (const auto* wanted = std::get_if<desired>(sent.message.get())) {
      who->wanted = *wanted;
      who->wanted_buffer = sent.message.get();
      ++who->desired_count;
    } else if (const auto* said = std::get_if<ack>(sent.message.get())) {
      who->answered = said->seq;
      if (who->wanted.seq == 0) who->answered_before_wanted = true;
    } else if (const auto* no = std::get_if<refused>(sent.message.get())) {
      who->refusal = no->text;
      who->refusal_code = no->exit_code;
    } else if (const auto* report = std::get_if<round_report>(sent.message.get())) {
      who->reports.push_back(*report);
    }
  }

  std::deque<fake_node> nodes_;  // a deque, so that references stay valid
  std::uint64_t session_ = 0;
  connection_id connection_ = 0;
  std::string run_id_;
  instance_id next_instance_;
  core::run run_;
};

// Without a limit on quick failures or a backoff, since stories fail at once, again and again. The
// tests in quick_failures_test.cpp set both.
inline run_settings nodes_of(std::uint32_t nodes_min, std::uint32_t nodes_max,
                             std::uint32_t restarts_max = 3) {
  run_settings settings;
  settings.quick_failures_max = 0;
  settings.timing.backoff_max = duration::zero();
  settings.nodes_min = nodes_min;
  settings.nodes_max = nodes_max;
  settings.restarts_max = restarts_max;
  return settings;
}

// Two nodes, a and b, whose workers all run in round 1; a leads.
struct pair_story : run_story {
  explicit pair_story(run_settings settings = nodes_of(2, 2)) {
    a = &joined("a", settings);
    b = &joined("b", settings);
    start_round();
  }
  fake_node* a = nullptr;
  fake_node* b = nullptr;
};

}  // namespace ddprun::tests
