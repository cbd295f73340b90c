// The summary of a run that has ended, if one of its rounds failed: one line per round.
//
//   this node was in 3 rounds, 1 of which failed:
//     | round 1, 8.2 s, ranks 0-1 on a (10.0.0.1), 2-3 on b (10.0.0.2): b: rank 2 (local rank 0)
//       exited with code 1: ValueError: loss is NaN
//     | round 2, 90 s, on the same nodes: every worker succeeded
//
// Of many rounds, the first and the last ones are kept.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace ddprun::launcher {

class run_summary {
 public:
  static constexpr std::size_t first_max = 5;
  static constexpr std::size_t last_max = 10;

  // Add rounds in their order. `members`: which ranks were where; empty: unknown. `reached`: the
  // progress that this node's ranks had reported; empty: none.
  void add(const round_report& report, const std::string& members, const std::string& reached = {});

  // True if there were several rounds and one failed; a single round's own report says everything.
  bool is_worth_telling() const { return rounds_ > 1 && failed_ > 0; }

  // Without the last newline.
  std::string text() const;

 private:
  std::uint64_t rounds_ = 0;
  std::uint64_t failed_ = 0;
  std::string members_before_;
  std::string why_before_;  // a cause that repeats is not printed again
  std::vector<std::string> first_;
  std::deque<std::string> last_;
};

}  // namespace ddprun::launcher
