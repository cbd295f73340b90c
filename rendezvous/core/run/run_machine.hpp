// A run is the daemon's state machine for one run id: which nodes are here, which round is running,
// what each agent should do now, and why the run waits.
//
// It is pure: `step` takes one event and the moment it happened, and appends the effects that the
// caller must carry out, in order. It holds no socket, clock, log or random source.
//
//   phase       means                                        ends by
//   gathering   too few nodes are here                       max nodes, or min and last call
//   settling    losses may still follow                      `settle` of quiet
//   preparing   the leader opens the round's service         its ports, or a failure
//   running     every member has its assignment              success, failure, loss, drain
//   stopping    workers go down; the lost are fenced         all stopped, or proven or timed out
//   closed      over; agents are told, and say goodbye       forgotten after an hour
//
// The rules, and their numbers in the comments, are those of DESIGN.md.
#pragma once

#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/run_record.hpp"

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::core {

// Events.

// A connection has said hello. `fresh_instance` is random and not 0; it is used if this hello is
// the first of an instance.
struct agent_joined {
  connection_id connection = 0;
  ddprun::hello hello;
  std::string peer_address;   // numeric, as the daemon sees the agent
  std::string local_address;  // numeric, on which the agent reached the daemon
  instance_id fresh_instance = 0;
};
struct status_received {
  connection_id connection = 0;
  ddprun::status status;
};
struct goodbye_received {
  connection_id connection = 0;
};
// The connection has ended. Not sent for a connection that this machine closed.
struct agent_disconnected {
  connection_id connection = 0;
};
// A dead node, as its guardian describes it.
struct dead_node {
  std::string label;
  std::string address;
  std::uint32_t rank_first = 0;
  std::uint32_t worker_count = 0;  // 0: the guardian did not say
  session_id session{};
};
struct guardian_reported {
  session_id session;
  // Where the agent's workers ran, if an earlier daemon lived in the agent. Instance 0: the
  // guardian did not say.
  instance_id instance = 0;
  round_number round = 0;
  std::uint32_t group_rank = 0;
  dead_node who{};
};
struct operator_stop_requested {
  std::string text;
};
// Another run at this daemon that has too few nodes, as this one does; an empty id: there is none
// any more. People are told, because a mistyped run id makes both runs wait in vain.
struct neighbour_seen {
  std::string run_id;
  std::uint32_t nodes = 0;  // connected
  bool operator==(const neighbour_seen&) const = default;
};
// This revision and all before it are persisted, or the journal has given up on them for now.
struct record_persisted {
  std::uint64_t revision = 0;
};
// `next_deadline()` has passed. Harmless at any other time.
struct time_passed {};
// The caller's loop stood still for this long; the run's clock stood still with it.
struct loop_was_late {
  duration by{};
};

using run_event = std::variant<agent_joined, status_received, goodbye_received, agent_disconnected,
                               guardian_reported, operator_stop_requested, neighbour_seen,
                               record_persisted, time_passed, loop_was_late>;

// Effects.

// Queue the message. A `desired` replaces a `desired` that has not been sent yet, and an `ack` an
// `ack`. Many connections may get the same pointer: encode it once.
struct send_to_agent {
  connection_id connection = 0;
  std::shared_ptr<const daemon_message> message;
};
// Flush what is queued, then close. The machine has forgotten the connection already.
struct disconnect_agent {
  connection_id connection = 0;
};
// One line for the log of the daemon.
struct run_note {
  note_level level = note_level::info;
  std::string text;
  bool is_refusal = false;  // anyone who reaches the port can cause it at will: limit its rate
};
// Persist the record, then report `record_persisted`: assignments and the end of an instance are
// held back until then. No record: nothing about this run has to be persisted any longer.
struct persist_record {
  std::uint64_t revision = 0;  // from 1 on
  std::optional<run_record> record;
};

using run_effect = std::variant<send_to_agent, disconnect_agent, run_note, persist_record>;
using run_effects = std::vector<run_effect>;

// The machine.

struct run_options {
  std::string run_id;
  std::uint64_t epoch = 0;
  std::string version;  // of ddprun, for the welcome
  // No round of a run that this daemon did not know starts before this moment, because agents of an
  // earlier daemon may still come back. A moment in the past: there is no such wait.
  time_point recovery_until{};
  round_number first_round = 1;
  bool persists_records = false;  // the caller carries out persist_record
  // What an earlier daemon persisted of this run.
  std::optional<run_record> remembered;
  time_point began{};
  // The job of the agent that this daemon lives in, if this is that agent's run: instances of any
  // other job have lost the endpoint. None: the first node that comes opens the run.
  std::optional<started_job> opened_by;
};

// What people and pages are shown of a member.
struct member_view {
  std::string node;
  std::string host;
  std::string address;
  std::string role;
  std::uint32_t worker_count = 0;
  std::optional<std::uint32_t> group_rank;
  std::optional<std::uint32_t> rank_first;
  member_phase phase = member_phase::joined;
  bool connected = false;
  bool spare = false;
  duration since_heard{};
};

// No rank of the newest round moves, or none of a node that can tell by itself which rank hangs.
struct stall_view {
  std::optional<std::uint32_t> rank;  // that the others wait for; none: it cannot be told
  duration stood{};                   // since one has moved, as the nodes have said last
  std::string text;                   // both, and where all stand
};

struct run_view {
  std::string run_id;
  instance_id instance = 0;
  run_phase phase = run_phase::gathering;
  round_number round = 0;
  std::uint32_t restarts_used = 0;
  std::uint32_t restarts_forgiven = 0;  // how many of these no longer count
  std::uint32_t node_losses = 0;
  std::optional<run_settings> settings;
  std::uint32_t world_size = 0;
  std::string master_address;
  std::uint16_t master_port = 0;
  std::string leader_node;            // of the newest round that got assignments
  ddprun::leader_data leader_data;    // what the leader sent with its port, if anything
  std::optional<int> exit_code;       // once closed
  std::optional<cause> root_cause;    // of the newest round that ended
  std::vector<round_report> reports;  // of rounds that are over, the newest last, without tails
  std::string why;
  std::optional<stall_view> stall;  // none: ranks move, or are not watched
  std::size_t member_count = 0;
  std::vector<member_view> members;  // those that were asked for; by group rank, then by join order
};

// How many entries a run holds; each number is bounded, whatever its peers do.
struct run_sizes {
  std::size_t nodes = 0;
  std::size_t absent = 0;  // of `nodes`, those with neither connection nor membership
  std::size_t settings_groups = 0;
  std::size_t closed_instances = 0;
  std::size_t absent_at_close = 0;  // sessions, over all closed instances
};

class run {
 public:
  explicit run(run_options options);
  ~run();
  run(run&&) noexcept;
  run& operator=(run&&) noexcept;

  // Applies one event. Effects are appended to `effects`; carry them out in order.
  void step(const run_event& event, time_point now, run_effects& effects);

  // When `time_passed` is due next; none: nothing is being waited for.
  std::optional<time_point> next_deadline() const;

  // What the run waits for or does, in words: "waiting for 1 of 2 nodes; here: node-a (2 workers);
  // for 12 s".
  std::string why(time_point now) const;

  // Shows at most `most` members, from `first` on. A run of ten thousand nodes is shown page by
  // page, so that viewing it does not hold up the loop.
  run_view view(time_point now, std::size_t first = 0,
                std::size_t most = std::numeric_limits<std::size_t>::max()) const;
  run_phase phase() const;
  // How many nodes are here, while they are too few for a round; otherwise 0.
  std::uint32_t gathers() const;
  run_sizes sizes() const;

  // True when no node is connected and nothing needs to be remembered any longer: a closed instance
  // is remembered for one hour, a run that no node joined not at all.
  bool forgettable(time_point now) const;

  // When its newest instance was closed. None while a node is connected, or workers of the instance
  // may still live. Before its hour is over, such a run may be dropped to make room.
  std::optional<time_point> over_since(time_point now) const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace ddprun::core
