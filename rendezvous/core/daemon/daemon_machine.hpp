// A daemon is the state machine between a rendezvous daemon's connections and its runs: which runs
// exist, which agent belongs to which, when a run is created and when it is forgotten.
//
// It is pure, like its runs: `step` takes one event and the moment it happened, and appends the
// effects that the caller must carry out, in order. The caller's duties (DESIGN.md): it steps input
// that has arrived before `time_passed`; after its loop stood still it sends `loop_was_late` before
// anything else; it never uses the number of a connection again.
#pragma once

#include "rendezvous/base/log_limit.hpp"
#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/run/run_machine.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace ddprun::core {

// Events.

// One message of the agent protocol: the first on a connection is a hello or a guardian's message,
// and these come only first.
struct agent_said {
  connection_id connection = 0;
  agent_message message;
  std::string peer_address;        // numeric, as the daemon sees the agent
  std::string local_address;       // numeric, on which the agent reached the daemon
  instance_id fresh_instance = 0;  // random and not 0; used if this hello opens an instance
  bool port_has_room = true;       // for one more agent on that port
};
// The connection has ended, however. Not sent for a connection that this machine closed.
struct connection_ended {
  connection_id connection = 0;
};
// An operator ends a run. Ignored if there is no run of that name.
struct run_stop_requested {
  std::string run_id;
  std::string text;
};
// All records up to this number are persisted, or the journal has given up on them for now.
struct records_persisted {
  std::uint64_t number = 0;
};

using daemon_event = std::variant<agent_said, connection_ended, run_stop_requested,
                                  records_persisted, time_passed, loop_was_late>;

// Effects.

// From now on the peer may leave what it is sent unread for this long.
struct limit_stall {
  connection_id connection = 0;
  duration limit{};
};
// Close at once, without a message: the agent comes again.
struct drop_connection {
  connection_id connection = 0;
};
// Persist the record, then report `records_persisted`. The newest record of a run replaces the
// earlier ones. No record: forget that run.
struct persist_run_record {
  std::uint64_t number = 0;  // from 1 on
  std::string run_id;
  std::optional<run_record> record;
};
// One line for the log. Lines that anyone can cause from outside are limited already.
struct daemon_note {
  note_level level = note_level::info;
  std::string text;
};

using daemon_effect = std::variant<send_to_agent, disconnect_agent, drop_connection, limit_stall,
                                   persist_run_record, daemon_note>;
using daemon_effects = std::vector<daemon_effect>;

// The machine.

struct daemon_options {
  std::uint64_t epoch = 0;
  std::string version;  // of ddprun
  // The most runs at a time that have nodes, or whose workers may live. Closed runs are remembered
  // for an hour if this number leaves room, so that nodes that come late are told how they ended.
  std::size_t runs_max = 1000;
  std::size_t agents_max = 100'000;  // connections that have said hello
  // Agents of an earlier daemon may still come back until then, so no round starts before it in a
  // run that may have been active. With records these are the runs that the records call open,
  // otherwise all.
  time_point recovery_until{};
  bool persists_records = false;        // the caller carries out persist_run_record
  std::vector<run_record> remembered;   // what an earlier daemon has persisted
  time_point began{};                   // when this daemon began
  std::optional<opened_run> opened_by;  // the run of the agent that this daemon lives in; none: it
                                        // is a process of its own
};

class daemon {
 public:
  explicit daemon(daemon_options options);

  void step(daemon_event event, time_point now, daemon_effects& effects);

  // When `time_passed` is due. None: only an event of another kind changes anything.
  std::optional<time_point> next_deadline() const;
  // Agents of an earlier daemon may still come back until then.
  time_point recovery_until() const { return clock_.real(recovery_until_); }

  // Connections that have said hello, and not goodbye.
  std::size_t agent_count() const { return agents_.size(); }
  std::size_t run_count() const { return runs_.size(); }
  // The run with this id; null: there is none.
  const run* find(std::string_view run_id) const;
  // Calls `see` with one run after the other, by name, from the one at index `first`, until it
  // returns false.
  template <typename See>
  void each_run(std::size_t first, See see) const {
    for (const auto& [id, entry] : runs_) {
      if (first > 0) {
        --first;
      } else if (!see(entry.machine)) {
        return;
      }
    }
  }

 private:
  struct run_entry {
    explicit run_entry(run_options options) : id(options.run_id), machine(std::move(options)) {}
    std::string id;
    run machine;
    std::size_t connections = 0;
    std::optional<time_point> deadline;
    bool is_on_record = false;
    neighbour_seen neighbour;  // that the run was last told of
  };
  using run_map = std::map<std::string, run_entry, std::less<>>;
  struct agent {
    run_entry* run = nullptr;
    session_id session;
  };

  void handle(agent_said& event);
  void handle(const connection_ended& event);
  void handle(const run_stop_requested& event);
  void handle(const records_persisted& event);
  void handle(const time_passed& event);
  void handle(const loop_was_late& event);
  void hear(const agent_said& event, hello& greeting);
  void hear(const agent_said& event, const guardian_word& word);
  void hear(const agent_said& event, status& news);
  void hear(const agent_said& event, const goodbye& word);
  template <typename Other>
  void hear(const agent_said&, const Other&) {}  // belongs to a tether, and means nothing here

  bool has_room(const agent_said& event, const hello& greeting) const;
  void send_on(const agent_said& event, const hello& greeting);
  void turn_away(const agent_said& event, const hello& greeting);
  run_options options_of(const std::string& run_id) const;
  void remember(run_record record);
  void ask_to_persist(run_entry& entry, const persist_record& effect);
  run_map::iterator erase(run_map::iterator at);
  run_entry* run_for(const hello& greeting, connection_id connection);
  bool forget_a_finished_run();
  void step_run(run_entry& entry, const run_event& event);
  void carry_out(run_entry& entry, const run_event& event);
  void look_for_neighbour(run_entry& entry);
  void forget(connection_id connection);
  void refuse(connection_id connection, const std::string& text);
  void note(note_level level, std::string text);
  void note_some(log_limit& limit, note_level level, std::string text);

  daemon_options options_;
  machine_clock clock_;
  machine_time recovery_until_;  // what a new run is told, as late loops have moved it
  run_map runs_;
  std::set<std::string> gathering_;  // runs with some nodes, but too few
  std::unordered_map<connection_id, agent> agents_;
  // What is not persisted yet: the number of the change, its run, and that run's revision.
  struct pending_record {
    std::uint64_t number = 0;
    std::string run_id;
    std::uint64_t revision = 0;
  };
  std::deque<pending_record> pending_;
  std::uint64_t last_record_ = 0;
  log_limit refusals_;
  log_limit guardians_;

  // During a step.
  daemon_effects* effects_ = nullptr;
};

}  // namespace ddprun::core
