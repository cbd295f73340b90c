// What an agent remembers, and the parts of its machine. Internal to this folder.
//
//   file           what it decides
//   agent.cpp      which part an event goes to; time; leaving
//   daemon.cpp     the session to the daemon: connect, hello, welcome, status, reconnect
//   desired.cpp    what the daemon wants: which word is new, and what it means here
//   round.cpp      a round: service, tether, spawn, how the workers end
//   stop.cpp       the way down: grace, kill, unkillable, fence, close; signals of a person
//   tether.cpp     both ends of the tether
//   liveness.cpp   who vouches for this node, since when, and isolation
//   text.cpp       sentences for people
//
// Thread rule: one thread. `now` and `effects` are those of the step under way.
#pragma once

#include "rendezvous/core/agent/agent.hpp"
#include "rendezvous/core/agent/daemon_link.hpp"
#include "rendezvous/core/agent/newest_word.hpp"
#include "rendezvous/core/agent/way_out.hpp"

#include <csignal>
#include <cstddef>
#include <map>
#include <set>

namespace ddprun::core {

inline constexpr int exit_code_unreachable = 1;
// A signal to the whole group of processes reaches this agent and its workers in any order; so long
// after a worker has ended by one it is not known yet whether this node was asked to leave.
inline constexpr duration own_signal_wait = std::chrono::milliseconds(100);

struct agent::state {
  using moment = std::optional<time_point>;

  // ---- the member's end of the tether ----
  struct tether_link {
    bool wanted = false;    // this node keeps a tether in this round
    bool answered = false;  // the hello was
    bool waiting = false;   // a beat is under way; the next one waits for its answer
    time_point waiting_since;
    time_point hello_since;  // the oldest dial whose hello may still be answered
    bool hello_pending = false;
    time_point beat_due;
    std::uint64_t beat_seq = 0;  // never used twice in a round
    unsigned attempts = 0;
    std::string error;
    moment vouched;  // send time of the newest beat that was answered
  };

  // ---- the leader's end of the tethers ----
  struct held_tether {
    std::uint32_t slot = 0;
    std::uint64_t beat_seq = 0;
    moment answered;  // when its newest word was answered; none: it was not
  };
  struct held_slot {
    session_id session;
    std::uint64_t tether = 0;  // its newest, which may have ended
    moment vouched;
  };
  struct held_tethers {
    std::map<std::uint64_t, held_tether> by_tether;
    std::map<std::uint32_t, held_slot> by_slot;
    std::set<std::pair<time_point, std::uint32_t>> by_age;  // slots that ever vouched
    moment needed_at;  // the newest beat of a member whose workers have not all succeeded
  };

  struct seen_cause {
    ddprun::cause cause;
    time_point at;
  };

  enum class force { ask, kill };

  explicit state(agent_options given);

  // ---- agent.cpp ----
  void handle(const daemon_connected& event);
  void handle(const daemon_disconnected& event);
  void handle(const daemon_said& event);
  void handle(const service_opened& event);
  void handle(const service_failed& event);
  void handle(const tether_connected& event);
  void handle(const tether_disconnected& event);
  void handle(const tether_answered& event);
  void handle(const member_attached& event);
  void handle(const member_beat& event);
  void handle(const member_detached& event);
  void handle(const workers_started& event);
  void handle(const worker_ended& event);
  void handle(const signal_received& event);
  void handle(const agent_time_passed& event);
  void handle(const agent_loop_was_late& event);
  void emit(agent_effect effect);
  void note(note_level level, std::string text);
  // Goodbye if no worker lives, and the last effect.
  void finish(int exit_code, std::string text, std::optional<ddprun::cause> first_cause);
  void collect_deadlines(moment& next) const;

  // ---- daemon.cpp ----
  void welcomed_by(const welcome& message);
  void answered_by(const answer& message);
  void refused_by(const refused& message);
  void connect_again();
  void drop_silent_daemon(std::string text);
  status make_status();
  bool has_news() const;
  void send_status_if_due();
  moment join_deadline() const;
  duration jittered(duration value);

  // ---- desired.cpp ----
  void told(const desired& message);
  void enter_instance(instance_id value);
  void obey(const desired& message);
  void obey_wait(const desired& message);
  void obey_prepare(const desired& message);
  void obey_run(const desired& message);
  void obey_stop(const desired& message);
  void obey_deferred();
  bool has_left(const desired& message) const;
  void stay_out(round_number number);

  // ---- round.cpp ----
  void begin_round(round_number number);
  void forget_round();
  void take_place(const assignment& value);
  void spawn_when_vouched();
  void fail(ddprun::cause why);
  void remember(ddprun::cause why);
  void worker_failed(ddprun::cause why);
  void wait_for_own_signal(ddprun::cause why);
  void take_as_failures();
  void take_as_drain();
  bool in_round() const;
  bool is_leader() const;
  bool is_alone() const;

  // ---- stop.cpp ----
  void take_down(force how, duration grace = {}, int request = SIGTERM);
  void let_go();
  void settle_down();
  void after_workers();
  void leave_if_drained();
  void check_stop_deadlines();
  moment drain_deadline() const;
  moment own_stop_deadline() const;

  // ---- tether.cpp ----
  void dial(duration delay);
  void dial_again(std::string text);
  void send_beat();
  void check_tether();
  moment tether_deadline() const;
  moment reach_deadline() const;
  bool accepts_tethers() const;

  // ---- liveness.cpp ----
  duration limit() const;
  duration silence_limit() const;
  moment round_vouch() const;
  moment vouch() const;
  bool vouched() const;
  bool has_lapsed() const;
  moment isolation_due() const;
  moment orphan_due() const;
  moment isolation_deadline() const;
  void vouched_anew();
  void check_isolation();
  void was_late(duration by);

  // ---- text.cpp ----
  std::string unreachable_text() const;
  std::string tether_failure_text() const;
  std::string isolation_text() const;
  std::string orphan_text() const;
  std::string why_text() const;

  agent_options options;
  timers timing;
  std::uint64_t random;

  time_point now;
  agent_effects* effects = nullptr;
  bool changed = false;  // the status differs from the one sent last
  bool left = false;

  daemon_link daemon;

  newest_word word;

  instance_id instance = 0;  // this node is in it; 0: in none
  round_number round = 0;
  instance_id entered_instance = 0;  // of the newest round that began here, also after a fence
  round_number entered_round = 0;
  member_phase phase = member_phase::joined;
  std::uint32_t restarts_used = 0;
  std::optional<assignment> place;
  std::uint32_t group_world_size = 0;
  time_point round_began;
  bool service_wanted = false;
  std::uint16_t service_port = 0;
  std::uint16_t master_port = 0;
  std::vector<std::string> nccl_ids;
  std::vector<seen_cause> causes;  // the likeliest first cause first; at most causes_max
  std::uint64_t tail_seq = 0;      // of the first status on this connection that told the tail
  bool tail_told = false;          // and the daemon has answered it, or one after it
  std::vector<seen_cause> asked;   // ended by a signal that this agent may be sent, too
  moment asked_until;              // from then on they are failures
  time_point failed_at;

  // The workers. `living` counts those of which no end has been told.
  std::vector<bool> ended;
  std::uint32_t living = 0;
  std::uint32_t unkillable = 0;
  bool all_succeeded = false;  // every one of the round ended with 0, unasked
  bool asked_to_stop = false;
  time_point asked_at;  // when they were asked, or killed, first
  bool killed = false;
  moment grace_until;
  moment kill_until;

  tether_link tether;
  held_tethers held;
  moment frozen_vouch;    // of the tethers, from when they were let go
  moment thaw_until;      // isolation waits until then after a loop that was late
  bool orphaned = false;  // the workers were asked to end, as there has long been no daemon

  way_out out;
};

}  // namespace ddprun::core
