// The agent's state machine: what the daemon wants, what the workers do, whose lease keeps them
// alive, and when they must be killed because no peer renews it.
//
// It is pure: `step` takes one event and the moment it happened, and appends the effects that the
// caller must carry out, in order. Every event about workers, service or tether names its round;
// one of an older round is ignored, so the caller never has to cancel in time.
//
// Leases (DESIGN.md): an agent whose heartbeats the daemon acknowledges obeys the daemon. Without
// the daemon it runs on only while its tether to the leader is acknowledged, and the leader only
// while it holds the tethers of all other members. An agent that has had neither for
// `isolation_limit`, counted from when it *sent* the last heartbeat that was acknowledged, kills
// its workers without grace.
#pragma once

#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::core {

// Events.

// The connection to the daemon is open. `own_address` is the numeric address of this end.
// `is_here`: that daemon lives in this process.
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

// Leader: a member's tether arrived, sent a beat or ended. `tether` names the connection at the
// service; no two in a round have the same name.
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

// How many bytes have been put back for the workers of the round before they are started. To be
// repeated as the number grows.
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

// A worker that was asked to end still seems to be busy: it is saving. To be repeated while that is
// so, more often than busy_word_counts.
struct workers_busy {
  round_number round = 0;
};

// The caller did not get to its loop by `workers_live_until()`, and its guardian has killed the
// workers. Comes before their ends.
struct killed_by_guardian {
  round_number round = 0;
};

// What the health check of this node has found: the answer to check_node, with its round; or the
// result of a later check, with round 0. Empty: nothing.
struct node_checked {
  round_number round = 0;
  std::string unhealthy;
};

// None of this node's ranks has moved for `stall.age`; no stall: one has moved again.
struct ranks_stalled {
  round_number round = 0;
  std::optional<ddprun::stall> stall;
};

struct signal_received {
  int signal = 0;  // SIGINT, SIGTERM, SIGHUP or SIGQUIT
};
// `next_deadline()` has passed. Harmless at any other time.
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
// or daemon_disconnected. `may_host`: if that endpoint is this host and no program listens there, a
// daemon may be opened in this process first, if the user allows it. It belongs to `job`, which
// opened the instance that this node knows (none: to this node's own job).
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

// Open the round's service; answer with service_opened or service_failed. The sizes are for the
// descriptor limit. Other nodes will dial `master_address` (empty: an older daemon does not say).
struct open_service {
  round_number round = 0;
  std::uint32_t group_world_size = 1;
  std::uint32_t world_size = 1;
  std::string master_address;
};
// Close it in good order: the workers are gone.
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

// Spawn all workers of the round; answer with workers_started, or with worker_ended for each that
// could not be started.
struct start_workers {
  instance_id instance = 0;
  round_number round = 0;
  ddprun::assignment assignment;
  std::uint32_t restarts_used = 0;
  std::uint32_t restarts_forgiven = 0;  // how many of these no longer count
  std::string members;  // which ranks are where, in words; empty: an older daemon does not say
};
// Ask every living worker to end (SIGTERM, or the signal the person sent).
struct stop_workers {
  round_number round = 0;
  int signal = 15;
  bool may_stay = false;     // another round may follow; a worker that can leave may live on
  duration grace{};          // until kill_workers follows, as far as is known now
  bool is_ordinary = false;  // all ranks are asked to end, and none is known to be lost
};
// SIGKILL to every living worker and its process group.
struct kill_workers {
  round_number round = 0;
};
// SIGKILL to workers that have left a round and wait for another (stop_workers::may_stay): the run
// has gone on without them, or is another one.
struct end_survivors {};
// Check whether this node is fit for another round, while its workers stop. Answer with
// node_checked, whatever happens, in bounded time, because this node does not report that it has
// stopped before.
struct check_node {
  round_number round = 0;
};
// According to all nodes of the round, this rank hangs. One of this node's is killed if the user
// has asked for that and no rank has moved since; otherwise it is named. Of one of another node
// only the leader's node hears, which has already said so (agent_note).
struct name_hung {
  round_number round = 0;
  hung_rank who;
  bool is_here = true;
};
// One line for the person at this node.
struct agent_note {
  note_level level = note_level::info;
  std::string text;
};
// Why this node leaves, which an exit code alone does not tell: a run may fail with any code.
enum class leave_reason {
  run_over,  // the code is the run's: the other nodes end with it, too
  drained,   // a signal came to this node; the other nodes go on
  refused,   // the daemon does not want this node; the other nodes go on
  unmet,     // no daemon was reached in time, or not enough nodes
};
// Leave with this code once everything queued for the daemon has been sent (the caller bounds the
// time). It is the last effect. An agent that holds the daemon stays until the others have left, or
// for `linger`.
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

// How long a workers_busy spares the workers; together at most busy_grace_max from when they were
// asked to end (the time that torchrun gives them), or drain_grace.
inline constexpr duration busy_word_counts = std::chrono::seconds(2);
inline constexpr duration busy_grace_max = std::chrono::seconds(30);

// The machine.

struct agent_options {
  hello greeting;  // all but `state` and `own_address`, which the machine fills
  // Where the daemon is, for messages: "10.0.0.1:29400". At least one; if a daemon cannot be
  // reached, or may not decide, the next is tried.
  std::vector<std::string> endpoints;
  std::uint64_t seed = 0;  // for the jitter of reconnects
  // Busy workers may take longer than stop_grace to end after a failure elsewhere; false: the user
  // has set how long they may take.
  bool spares_busy_workers = false;
  bool checks_node = false;  // between rounds: check_node
  // A daemon may be opened in this process if none answers, as far as is known when this node
  // starts; for messages.
  bool may_host = false;
  // Identifies this agent to the leaders of its rounds, which must not learn its session; all 0:
  // the session itself is used.
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

  // The timers of the run; this node's own until a daemon has welcomed it.
  const timers& timing() const;

  // When another round may start elsewhere although this node's workers live, if this machine did
  // nothing more. None: no worker lives, or no other node could start another round.
  std::optional<time_point> workers_live_until() const;

  // The position of this node's workers, current or coming, among those of the other nodes; none:
  // there are no workers, and so from before the daemon hears that they have ended.
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
