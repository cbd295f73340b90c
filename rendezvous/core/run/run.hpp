// A run is the daemon's state machine for one run id: who is here, which round is on, what every
// agent ought to do now, and why the run waits.
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

#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/messages/types.hpp"
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
// The connection ended, in whatever way; never sent for one that this machine disconnected.
struct agent_disconnected {
  connection_id connection = 0;
};
// The holder of a membership, as far as its guardian has said it.
struct dead_node {
  std::string label;
  std::string address;
  std::uint32_t rank_first = 0;
  std::uint32_t worker_count = 0;  // 0: not said
  session_id session{};
};
struct guardian_reported {
  session_id session;
  // Where the workers were, of an agent in which an earlier daemon lived; no instance: not said.
  instance_id instance = 0;
  round_number round = 0;
  std::uint32_t group_rank = 0;
  dead_node who{};
};
struct operator_stop_requested {
  std::string text;
};
// Another run that gathers at this daemon with too few nodes, as this one does; an empty id: there
// is none any more. For people: who has mistyped a run id waits in vain.
struct neighbour_seen {
  std::string run_id;
  std::uint32_t nodes = 0;  // that are there
  bool operator==(const neighbour_seen&) const = default;
};
// Of what `persist_record` asked for, this number and all before it are kept, or will not be for
// now.
struct record_persisted {
  std::uint64_t revision = 0;
};
// `next_deadline()` has come, or nothing has: harmless at any time.
struct time_passed {};
// The caller's loop stood still for so long: all deadlines move by it.
struct loop_was_late {
  duration by{};
};

using run_event = std::variant<agent_joined, status_received, goodbye_received, agent_disconnected,
                               guardian_reported, operator_stop_requested, neighbour_seen,
                               record_persisted, time_passed, loop_was_late>;

// Effects.

// Queue the message; a `desired` replaces a `desired` that has not been sent yet, an `answer` an
// `answer`. The same pointer goes to many connections: encode it once.
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
  bool is_refusal = false;  // anybody who reaches the port may cause it, as often as they like
};
// Keep it where it outlives the daemon, then say `record_persisted`: assignments and the end of an
// instance are held back until then. None: nothing need be known of this run any longer.
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
  // No round of a run that this daemon did not know starts before this moment: agents of an
  // earlier daemon may still come back. A moment in the past: no such wait.
  time_point recovery_until{};
  round_number first_round = 1;
  bool persists_records = false;  // persist_record is carried out
  // What an earlier daemon has kept of this run; with it, when this one began.
  std::optional<run_record> remembered;
  time_point began{};
  // Of the agent that this daemon lives in, where this is its run: whatever comes from another job
  // has lost its place. None: whoever comes first opens the run.
  std::optional<started_job> opened_by;
};

// What a person or a page may know of a member.
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

struct run_view {
  std::string run_id;
  instance_id instance = 0;
  run_phase phase = run_phase::gathering;
  round_number round = 0;
  std::uint32_t restarts_used = 0;
  std::uint32_t restarts_forgiven = 0;  // of them
  std::uint32_t node_losses = 0;
  std::optional<run_settings> settings;
  std::uint32_t world_size = 0;
  std::string master_address;
  std::uint16_t master_port = 0;
  std::string leader_node;            // of the newest round that was placed
  ddprun::leader_data leader_data;    // that it has given, if any
  std::optional<int> exit_code;       // once closed
  std::optional<cause> root_cause;    // of the newest round that ended
  std::vector<round_report> reports;  // of rounds that are over, the newest last, without tails
  std::string why;
  std::size_t member_count = 0;
  std::vector<member_view> members;  // those that were asked for; by group rank, then by join order
};

// How much a run remembers: each is bounded, whatever its peers do.
struct run_sizes {
  std::size_t nodes = 0;
  std::size_t absent = 0;  // of them: without connection and without a place in the round
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

  // The moment at which `time_passed` is wanted next; none when nothing is being waited for.
  std::optional<time_point> next_deadline() const;

  // What the run waits for or does, in words: "waiting for 1 of 2 nodes; here: node-a (2 workers);
  // for 12 s".
  std::string why(time_point now) const;

  // With the members from `first` on, at most `most` of them: a run of ten thousand is shown page
  // by page, so that a look at it holds up nothing.
  run_view view(time_point now, std::size_t first = 0,
                std::size_t most = std::numeric_limits<std::size_t>::max()) const;
  run_phase phase() const;
  // While it gathers and too few nodes are here: how many; else 0.
  std::uint32_t gathers() const;
  run_sizes sizes() const;

  // True when nobody is connected and nothing needs to be remembered any longer: a closed instance
  // is remembered for one hour, a run that nobody joined not at all.
  bool forgettable(time_point now) const;

  // When its newest instance was closed. None while anybody is connected, or workers of it may
  // still live; before that hour is over it may be forgotten where room is needed.
  std::optional<time_point> over_since(time_point now) const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace ddprun::core
