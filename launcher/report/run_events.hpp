// The events of a run for --on-event:
//
//   round_started   all workers of this node run in a round
//   recovered       the same, if the round before had failed; follows round_started
//   hang            a rank hangs, or is ended because it does: on its node, and, where that cannot
//                   tell by itself, on the node of rank 0, too; once until a rank there moves again
//   hang_over       a rank of this node moves again; follows hang, in the same round
//   round_failed    a round is over, and something had failed in it
//   ended           this node leaves, with the run or alone
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

enum class run_event_kind { round_started, recovered, hang, hang_over, round_failed, ended };

std::string_view to_string(run_event_kind kind);

struct run_event {
  run_event_kind kind = run_event_kind::ended;
  bool leads = false;      // this node has group rank 0 in the round, as exactly one node has
  round_number round = 0;  // 0: there was none
  std::uint32_t restarts_used = 0;
  std::uint32_t restarts_max = 0;
  std::string members;                 // which ranks are where; empty: unknown
  std::optional<std::uint32_t> rank;   // hang
  std::optional<round_report> report;  // round_failed
  std::string output;                  // for round_failed: where the root cause's output is
  int exit_code = 0;                   // for ended
  std::string text;                    // for ended: why; for hang: who hangs, and where all stand
};

// A line of JSON with its newline (PROTOCOL.md, "Reports").
std::string event_json(const run_event& event, const std::string& run_id, const std::string& node);

class run_events {
 public:
  explicit run_events(std::uint32_t restarts_max) : restarts_max_(restarts_max) {}

  // Enters a round, without an event.
  void enter(round_number round, const assignment& assigned, const std::string& members,
             std::uint32_t restarts_used);
  // All workers of the round run.
  std::vector<run_event> started(round_number round);
  // A rank of the round hangs; none: a rank here moves again. Nothing is returned for what changes
  // nothing.
  std::vector<run_event> hangs(const std::optional<hung_rank>& who);
  std::vector<run_event> over(const round_report& report, const std::string& output);
  // Returns nothing for a node that was refused: the run is not its own.
  std::vector<run_event> left(int exit_code, const std::string& text);

  bool leads() const { return leads_; }  // this node, in the round that it has entered last

 private:
  run_event event_of(run_event_kind kind) const;

  std::uint32_t restarts_max_;
  round_number round_ = 0;
  bool leads_ = false;
  std::string members_;
  std::uint32_t restarts_used_ = 0;
  bool has_failed_ = false;  // whether the last finished round has failed
  bool hangs_ = false;       // a rank, of the round that runs
};

}  // namespace ddprun::launcher
