// A cause says why a round ended. Here is how the root cause is found among many reports, how it is
// described to people, and which exit code follows from it (DESIGN.md, rule 5).
//
// When one worker dies, the others follow: by a broken connection, then by our own stop. Reports
// arrive in any order, late and repeated. So the root cause is the one that can hardly be a
// consequence of another, and only among equals the earliest: by the daemon's receive time less the
// report's own age. Wall clocks of two hosts are never compared.
#pragma once

#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <optional>
#include <string>

namespace ddprun::core {

// How much earlier a drain or an operator's stop counts than the plain exits around it: workers on
// other nodes notice within the same second that a peer goes away, and often report first.
inline constexpr duration planned_head_start = std::chrono::seconds(1);

// Whether `one`, at `one_at`, is more likely the root cause than `other`. A strict order: first by
// what can hardly be a consequence, then by time. Both times are of one host's clock.
bool comes_before(const cause& one, time_point one_at, const cause& other, time_point other_at);

// Collects reports of one round and keeps the root cause, whatever the order and number of the
// reports. Its size does not depend on how many there were.
class root_cause {
 public:
  // Adds what this side has seen itself. `received`: when it did, or when the report arrived, by
  // this host's clock.
  void add(const cause& seen, time_point received);
  // Adds what a member reports. It may have to be judged again: see without_reports().
  void add_report(const cause& report, time_point received);
  const std::optional<cause>& get() const { return best_.what; }
  // The root cause of what was added by add() only.
  root_cause without_reports() const;
  void clear() { best_ = seen_ = {}; }

 private:
  struct entry {
    std::optional<cause> what;
    time_point happened{};
    void take(const cause& one, time_point received);
  };
  entry best_;
  entry seen_;
};

// Whether a worker ended by this signal: directly, or by a handler that exits with 128 + signal.
bool is_end_by(const cause& value, int signal);

// Whether only our own stop ended the worker, which had shown no sign of failing.
bool is_only_stopped(const cause& value);

// Whether it ended by one of the signals that also ask an agent to leave (SIGHUP, SIGINT, SIGQUIT,
// SIGTERM). Then the whole process group may have been sent it.
bool is_end_by_request(const cause& value);

// One sentence without a full stop: "node-a: rank 3 (local rank 1) killed by SIGKILL".
std::string describe(const cause& value);

// ddprun's exit code when a run ends by this cause: the worker's exit status, 128 + the signal, 128
// + the signal of a drain or operator stop, otherwise 1. Never 0.
int exit_code_of(const cause& value);

// Whether the cause is charged to `--max-restarts`.
bool is_charged_as_restart(cause_class kind);

}  // namespace ddprun::core
