// Rounds in a row that failed within seconds of their start: how many of them in the same way, so
// that it is known when restarts do not help, and how long to pause before the next one.
//
// A round that ran for longer ends the row. One that nothing failed in (a lost node, a drain, a
// join) says nothing, and leaves it as it is.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::core {

// Before the third round; doubled for each that follows.
inline constexpr duration first_pause = std::chrono::seconds(1);

// Do both say the same, on whatever rank and node? Exit code and text count, but for words with a
// digit in them: a step, an address, a process.
bool is_same_failure(const cause& one, const cause& other);

// Is it known why it failed? An effect has its cause elsewhere, and what our own stop ended has
// none.
bool is_failure_of_its_own(const cause& why);

class quick_failures {
 public:
  // A failure that is charged, so long after the start of its round. `node`: a name for where it
  // happened; `all_failed`: every rank of several ended by itself.
  void add(const cause& first, duration after, const std::string& node, bool all_failed);
  void end_row() { *this = {}; }
  // What is tried next is something else: another set of nodes.
  void forget_alike();

  std::uint32_t in_row() const { return in_row_; }
  // The newest of them that failed in the same way, or with all ranks each.
  std::uint32_t alike() const { return std::max(same_, all_failed_); }
  bool are_same() const { return same_ >= all_failed_; }
  // The longest that one of those took; in whole seconds, at least 1 s.
  duration within() const;
  // The node on which all of those came first; empty: several, or the whole job.
  const std::string& node() const { return node_; }
  // Before the next round.
  duration pause(duration most) const;

 private:
  std::uint32_t in_row_ = 0;
  std::uint32_t same_ = 0;
  std::uint32_t all_failed_ = 0;
  duration longest_{};
  std::optional<cause> last_;
  std::string node_;
};

}  // namespace ddprun::core
