// The agent's state machine: what the daemon wants, what the workers do, on whose
// lease they live, and when it must kill them because nobody renews it.
//
// It is pure: `step` takes one event and the moment it happened, and appends the effects that the
// caller must carry out, in order. Every event about workers, service or tether names its round;
// one of an older round is ignored, so the caller never has to cancel in time.
//
// Leases (DESIGN.md): an agent that the daemon answers obeys the daemon. Without it, it
// runs on only while its tether to the leader answers, and the leader only while it holds the
// tethers of all other members. Whoever has neither for `isolation_limit`, counted from the *send*
// time of the last heartbeat that was answered, kills its workers without grace.
#pragma once

#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/messages/types.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::core {

// Events.

// A connection to the daemon stands; `own_address` is this end's numeric address. `is_here`: that
// daemon lives in this process.
struct daemon_connected {
  std::string own_address;
  bool is_here = false;
};
// It ended or could not be made; `text` says how ("10.0.0.1:29400: Connection refused").
struct daemon_disconnected {
  std::string text;
};
struct daemon_said {
  std::shared_ptr<const daemon_message> message;
};

// The round's service listens: tethers at `service_port`, workers at `master_port` (the same port
// in store mode `agent`).
struct service_opened {
  round_number round = 0;
  std::uint16_t service_port = 0;
  std::uint16_t master_port = 0;
  ddprun::leader_data leader_data;
};
struct service_failed {
  round_number round = 0;
  std::string text;
};

struct tether_connected {
  round_number round = 0;
};
// Could not be made, or broke; the machine asks for another while it wants one.
struct tether_disconnected {
  round_number round = 0;
  std::string text;
};
struct tether_acked {
  round_number round = 0;
  std::uint64_t seq = 0;
};

// Leader: a member's tether arrived, spoke, ended. `tether` names the connection at the service;
// no two of a round have the same.
struct member_attached {
  std::uint64_t tether = 0;
  tether_hello hello;
};
struct member_beat {
  std::uint64_t tether = 0;
  tether_beat beat;
};
struct member_detached {
  std::uint64_t tether = 0;
};

// Before the workers of the round are started so many bytes have been put back for them. To be told
// again as the number grows.
struct workers_restoring {
  round_number round = 0;
  std::uint64_t bytes = 0;
};
// Every worker of the round was executed.
struct workers_started {
  round_number round = 0;
};
// One worker ended (reaped, its output drained), or could not be started (cause_class::start: no
// process lives). The caller fills process, local_rank, kind, code, text and tail.
struct worker_ended {
  round_number round = 0;
  std::uint32_t local_rank = 0;
  bool success = false;
  ddprun::cause cause;
};

// Some worker that was asked to end is at something still, as far as can be seen: it saves. To be
// told again while that is so, more often than busy_word_counts.
struct workers_busy {
  round_number round = 0;
};

// The caller did not come to its loop by `workers_live_until()`, and its guardian has killed them.
// Told before their ends.
struct killed_by_guardian {
  round_number round = 0;
};

// What the health check of this node has found: the answer to check_node, with its round, or what
// a later look says, with round 0. Empty: nothing.
struct node_checked {
  round_number round = 0;
  std::string unhealthy;
};

// None of this node's ranks has moved for `stall.age`; none: one has moved again. Told where the
// round has other nodes.
struct ranks_stalled {
  round_number round = 0;
  std::optional<ddprun::stall> stall;
};

struct signal_received {
  int signal = 0;  // SIGINT, SIGTERM, SIGHUP or SIGQUIT
};
// `next_deadline()` has come, or nothing has: harmless at any time.
struct agent_time_passed {};
struct agent_loop_was_late {
  duration by{};
};

using agent_event =
    std::variant<daemon_connected, daemon_disconnected, daemon_said, service_opened, service_failed,
                 tether_connected, tether_disconnected, tether_acked, member_attached, member_beat,
                 member_detached, workers_restoring, workers_started, worker_ended, workers_busy,
                 killed_by_guardian, node_checked, ranks_stalled, signal_received,
                 agent_time_passed, agent_loop_was_late>;

// Effects.

// Dial the daemon at agent_options::endpoints[endpoint] after `delay`; answer with daemon_connected
// or daemon_disconnected. `may_host`: where that endpoint is this host and nobody listens there, a
// daemon may be opened in this process first, if the person allows it; it belongs to `job`, that of
// the instance which this node knows (none: to its own).
struct connect_daemon {
  duration delay{};
  std::size_t endpoint = 0;
  bool may_host = false;
  std::optional<started_job> job;
};
// Queue the message; a `status` replaces a `status` that has not been sent yet.
struct send_to_daemon {
  agent_message message;
};
// Drop the connection; no daemon_disconnected follows.
struct disconnect_daemon {};

// Open the round's service; answer with service_opened or service_failed. The sizes are
// for the descriptor limit; others will dial `master_address` (empty: an older daemon does not
// say).
struct open_service {
  round_number round = 0;
  std::uint32_t group_world_size = 1;
  std::uint32_t world_size = 1;
  std::string master_address;
};
// Close it, politely: the workers are gone.
struct close_service {
  round_number round = 0;
};

struct dial_tether {
  round_number round = 0;
  std::string address;
  std::uint16_t port = 0;
  duration delay{};
  tether_hello hello;
};
struct send_tether_beat {
  tether_beat beat;
};
// Drop it; no tether_disconnected follows.
struct drop_tether {};

// Leader.
struct ack_member {
  std::uint64_t tether = 0;
  std::uint64_t seq = 0;
};
struct refuse_member {
  std::uint64_t tether = 0;
  std::string text;
};
// Drop all tethers that are held; no member_detached follows.
struct drop_members {};

// Spawn all workers of the round; answer with workers_started, or worker_ended where one could not
// be started.
struct start_workers {
  instance_id instance = 0;
  round_number round = 0;
  ddprun::assignment assignment;
  std::uint32_t restarts_used = 0;
  std::uint32_t restarts_forgiven = 0;  // of them
  std::string members;  // who is where, in words; empty: an older daemon does not say
};
// Ask every living worker to end (SIGTERM, or the signal the person sent).
struct stop_workers {
  round_number round = 0;
  int signal = 15;
  bool may_stay = false;  // another round may follow: one that can leave this round may live on
  duration grace{};       // until kill_workers follows, as far as is known now
};
// SIGKILL to every living worker and its process group.
struct kill_workers {
  round_number round = 0;
};
// SIGKILL to those that have left a round and wait for another (stop_workers::may_stay): the run
// has gone on without them, or is another.
struct end_survivors {};
// Look whether this node is fit for another round, while its workers stop; answer with
// node_checked, however it goes, in bounded time: this node does not say that it has stopped
// before.
struct check_node {
  round_number round = 0;
};
// By what all nodes of the round have said, this rank of this node hangs: it is to be ended where a
// person has asked for that and none has moved since, else named.
struct name_hung {
  round_number round = 0;
  hung_rank who;
};
// One line for the person at this node.
struct agent_note {
  note_level level = note_level::info;
  std::string text;
};
// What an exit code alone does not tell, as a run may fail with any.
enum class leave_reason {
  run_over,  // the code is the run's: the other nodes end with it, too
  drained,   // a signal has come to this node; the others go on
  refused,   // the daemon does not want this node; the others go on
  unmet,     // no daemon was reached in time, or not enough nodes
};
// Leave with this code once everything queued to the daemon has been sent (bounded by the caller).
// The last effect ever. `hosting agents` stay until the others have left, or for `linger`.
struct leave {
  int exit_code = 0;
  std::string text;  // the last line for the person; may be empty
  std::optional<cause> root_cause;
  leave_reason why = leave_reason::run_over;
};

using agent_effect =
    std::variant<connect_daemon, send_to_daemon, disconnect_daemon, open_service, close_service,
                 dial_tether, send_tether_beat, drop_tether, ack_member, refuse_member,
                 drop_members, start_workers, stop_workers, kill_workers, end_survivors, check_node,
                 name_hung, agent_note, leave>;
using agent_effects = std::vector<agent_effect>;

// A workers_busy spares them for so long from then on, and never for more than busy_grace_max from
// when they were asked to end, which is torchrun's time for that, or drain_grace.
inline constexpr duration busy_word_counts = std::chrono::seconds(2);
inline constexpr duration busy_grace_max = std::chrono::seconds(30);

// The machine.

struct agent_options {
  hello greeting;  // all but `state` and `own_address`, which the machine fills
  // Of the daemon, for messages: "10.0.0.1:29400". At least one; where a daemon cannot be reached,
  // or may not decide, the next one is tried.
  std::vector<std::string> endpoints;
  std::uint64_t seed = 0;  // for the jitter of reconnects
  // After a failure elsewhere workers that are at something have more than stop_grace to end;
  // false: the person has said how long it is.
  bool spares_busy_workers = false;
  bool checks_node = false;  // between rounds: check_node
  // A daemon may be opened in this process where none answers, as far as is known when this node
  // starts; for messages.
  bool may_host = false;
  // Names it to the leaders of its rounds, which must not know its session; all 0: that.
  session_id tether_session;
};

class agent {
 public:
  explicit agent(agent_options options);
  ~agent();
  agent(agent&&) noexcept;
  agent& operator=(agent&&) noexcept;

  // The first call, once: appends connect_daemon.
  void start(time_point now, agent_effects& effects);

  // Applies one event. Effects are appended to `effects`; carry them out in order.
  void step(const agent_event& event, time_point now, agent_effects& effects);

  std::optional<time_point> next_deadline() const;

  // The timers that all nodes of the run have: its own until a daemon has welcomed it.
  const timers& timing() const;

  // If this machine did nothing more: from when on another round may start elsewhere while this
  // node's workers live. None: no worker lives, or there is nobody who could start one.
  std::optional<time_point> workers_live_until() const;

  // Where this node's workers are, or will be, beside those of others; none: nowhere, and so from
  // before the daemon hears that they have ended.
  struct worker_group_rank {
    instance_id instance = 0;
    round_number round = 0;
    std::uint32_t group_rank = 0;
    std::uint32_t rank_first = 0;
    bool operator==(const worker_group_rank&) const = default;
  };
  std::optional<worker_group_rank> group_rank_of_workers() const;

  // What this node waits for or does, in words.
  std::string why(time_point now) const;

  member_phase phase() const;
  round_number round() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace ddprun::core
