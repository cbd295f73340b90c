// The agent's machine: its parts, by how long each lives, and the rules between them. Internal to
// this folder. Only a part changes its own state.
//
//   part            lives for    what it is
//   daemon_link     the agent    the session to the daemon
//   desired_state   the agent    what the daemon said last, and what of it waits
//   told_wait       the agent    until when it waits, and who is missing
//   shutdown_state  the agent    fenced, draining, leaving
//   local_round     a round      phase, assignment and service; and with them:
//     local_workers, local_causes, unclear_ends    who lives, who failed, of whom it is not clear
//     tether_link, held_tethers, isolation_state  whose lease
//     local_stall                                  since when none of its ranks has moved
//
//   file               what it decides, and the parts that it is made with
//   agent_machine.cpp  which part an event goes to; timers; leaving
//   daemon_link.cpp    connect, hello, welcome, status, reconnect: daemon_link
//   desired_state.cpp  what the daemon wants, and what it means here: desired_state, told_wait
//   local_round.cpp    a round: service, tether, spawn, ranks that stand still, workers' ends:
//                      local_round, local_causes, local_stall
//   agent_stop.cpp     the way down: grace, kill, unkillable, fence, close; signals of a person:
//                      local_workers, shutdown_state
//   leases.cpp         both ends of the tether: dial, beat, accept, answer; whose lease this node
//                      has, since when, and isolation: tether_link, held_tethers, isolation_state
//
// Questions are free functions over the parts that they read, in the header of their file;
// sentences for people are in agent_text.hpp. What changes more than one part is a member.
//
// `now` and `effects` are those of the step under way.
#pragma once

#include "rendezvous/base/machine_timers.hpp"
#include "rendezvous/core/agent/agent_machine.hpp"
#include "rendezvous/core/agent/agent_stop.hpp"
#include "rendezvous/core/agent/agent_text.hpp"
#include "rendezvous/core/agent/daemon_link.hpp"
#include "rendezvous/core/agent/desired_state.hpp"
#include "rendezvous/core/agent/local_round.hpp"

#include <csignal>
#include <span>

namespace ddprun::core {

struct agent::state {
  using moment = std::optional<time_point>;

  enum class force { ask, kill };

  explicit state(agent_options given);

  // In agent_machine.cpp.
  void handle(const daemon_connected& event);
  void handle(const daemon_disconnected& event);
  void handle(const daemon_said& event);
  void handle(const service_opened& event);
  void handle(const service_failed& event);
  void handle(const tether_connected& event);
  void handle(const tether_disconnected& event);
  void handle(const tether_acked& event);
  void handle(const member_attached& event);
  void handle(const member_beat& event);
  void handle(const member_detached& event);
  void handle(const workers_restoring& event);
  void handle(const workers_started& event);
  void handle(const worker_ended& event);
  void handle(const workers_busy& event);
  void handle(const killed_by_guardian& event);
  void handle(const node_checked& event);
  void handle(const ranks_stalled& event);
  void handle(const signal_received& event);
  void handle(const agent_time_passed& event);
  void handle(const agent_loop_was_late& event);
  void emit(agent_effect effect);
  void note(note_level level, std::string text);
  // Sends a goodbye if no worker lives, and the last effect.
  void finish(leave last);
  static std::span<const machine_timer<state>> timer_table();
  void set_time(time_point real);

  // In daemon_link.cpp.
  void welcomed_by(const welcome& message);
  void confirm_session();
  void note_first_failure(const std::string& text);
  void warn_of_version(const std::string& daemons);
  void acked_by(const ack& message);
  void refused_by(const refused& message);
  void connect_again(bool elsewhere = false);
  void turned_away_by(const not_primary& message);
  void drop_daemon(std::string text, bool elsewhere = false);
  status make_status();
  void send_status_if_due();
  void on_daemon_silent();
  void on_no_daemon();
  daemon_search search() const;
  duration jittered(duration value);

  // In desired_state.cpp.
  void told(const desired& message);
  void hear_restarts(const desired& message);
  void enter_instance(instance_id value);
  void obey(const desired& message);
  void obey_wait(const desired& message);
  void obey_prepare(const desired& message);
  void obey_run(const desired& message);
  void obey_stop(const desired& message);
  void obey_deferred();
  bool has_left(const desired& message) const;
  void stay_out(round_number number);

  // In local_round.cpp.
  void begin_round(round_number number);
  void replace_round(local_round next);
  void take_assignment(const desired& message);
  void spawn_when_leased();
  void fail(ddprun::cause why);
  void remember(ddprun::cause why);
  void worker_failed(ddprun::cause why);
  void fail_unless_asked(ddprun::cause why);
  void take_as_failures();
  void take_as_drain();
  void hear_hung(const desired& message);

  // In agent_stop.cpp.
  void fence();
  void take_down(force how, duration grace = {}, int request = SIGTERM, bool is_ordinary = false);
  void ask_to_end(const desired& message);
  void check_health();
  void let_go();
  void close_service_here();
  void round_is_down();
  void after_workers();
  void leave_if_drained();
  void on_unclear_over();
  void on_nobody_says_stop();
  void on_workers_overdue();

  // In leases.cpp: both ends of the tether.
  void dial(duration delay);
  void dial_again(std::string text);
  void beat_if_due();
  void on_tether_silent();
  void on_leader_unreachable();
  void ack_tether(std::uint64_t tether, std::uint64_t seq);

  // In leases.cpp: whose lease this node has.
  void remember_isolation(const std::string& text);
  void lease_renewed();
  void on_isolation();
  void was_late(duration by);

  agent_options options;
  timers timing;
  std::uint64_t random;

  machine_clock clock;
  machine_time now{};     // of the current step
  time_point real_now{};  // the same in real time
  agent_effects* effects = nullptr;
  bool changed = false;               // the status differs from the one sent last
  bool left = false;                  // the last effect has been given
  std::string endpoints_text;         // all endpoints: "a:29400 or b:29400"
  std::size_t endpoint_index = 0;     // the endpoint of the current daemon, or of the next try
  bool has_been_turned_away = false;  // since the last session; it was told once
  std::string daemon_version;         // ddprun version of the last daemon that welcomed this node

  daemon_link daemon;
  desired_state newest;
  told_wait wait;
  local_round local;
  std::string whereabouts;  // which ranks are where in the newest round that began here, in words
  std::uint32_t restarts_used = 0;      // charged in the instance that this node is in
  std::uint32_t restarts_forgiven = 0;  // how many of these no longer count
  std::optional<started_job> job;       // of the newest instance that a daemon named
  instance_id entered_instance = 0;     // of the newest round begun here, also after a fence
  round_number entered_round = 0;
  shutdown_state shutdown;
  std::string unhealthy;  // what the newest check of this node has found; empty: nothing
};

}  // namespace ddprun::core
