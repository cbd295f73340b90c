// A cause says why a round ended; this is how the first one is found among many reports, how it is
// said to people, and which exit code follows from it (DESIGN.md, rule 5).
//
// When one worker dies the others follow: by a broken connection, then by our own stop. Reports
// arrive permuted, delayed and doubled, so the root cause is picked by what is hard to fake as a
// consequence, and only then by time: the daemon's receive time minus the report's own age. No wall
// clock of two hosts is ever compared.
#pragma once

#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/messages/types.hpp"

#include <optional>
#include <string>

namespace ddprun::core {

// A drain or an operator's stop counts as so much earlier than the plain exits round it: workers
// on other nodes notice that a peer goes away within the same second, and often report first.
inline constexpr duration planned_head_start = std::chrono::seconds(1);

// Is `one`, which happened at `one_at`, rather the root cause than `other`? A strict order: by
// what can hardly be a consequence, then by time. Both times are of one host's clock.
bool comes_before(const cause& one, time_point one_at, const cause& other, time_point other_at);

// Collects reports of one round and keeps the root cause, whatever the order and number of the
// reports. Its size does not depend on how many there were.
class root_cause {
 public:
  // What this side has seen itself. `received` is the moment on this host's clock at which it did,
  // or at which the report arrived.
  void add(const cause& seen, time_point received);
  // What a member says. It may have to be judged again: see without_reports().
  void add_report(const cause& report, time_point received);
  const std::optional<cause>& get() const { return best_.what; }
  // The first of what was added by add().
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

// Did a worker end by this signal? By itself, or by a handler of it that exits with 128 + signal.
bool is_end_by(const cause& value, int signal);

// Did our own stop alone end the worker, which had given no sign that it fails?
bool is_only_stopped(const cause& value);

// Did it end by one of the signals that ask an agent to leave, too (SIGHUP, SIGINT, SIGQUIT,
// SIGTERM)? Then the whole group of processes may have been sent it.
bool is_end_by_request(const cause& value);

// One sentence without a full stop: "node-a: rank 3 (local rank 1) killed by SIGKILL".
std::string describe(const cause& value);

// What ddprun exits with when a run ends by this cause: the worker's exit status, 128 + the signal,
// 128 + the signal of a drain or operator stop, else 1. Never 0.
int exit_code_of(const cause& value);

// Does the cause cost a restart of `--max-restarts`?
bool is_charged_as_restart(cause_class kind);

}  // namespace ddprun::core
