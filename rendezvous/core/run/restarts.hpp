// What failures cost an instance: restarts and node losses, quick failures in a row, and how often
// each node failed first. DESIGN.md, rules 6, 12 and 13.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::core {

// What an instance has been charged: failures of workers against --max-restarts, losses of nodes
// within an hour against --max-node-losses.
//
// Restarts that were used never become fewer. Where --restart-window refills the budget, those that
// were used until then are forgiven: they count against --max-restarts no longer.

inline constexpr duration node_loss_window = std::chrono::hours(1);

class restart_budget {
 public:
  std::uint32_t restarts_used() const { return restarts_used_; }
  std::uint32_t restarts_forgiven() const { return std::min(forgiven_, restarts_used_); }
  std::uint32_t restarts_counted() const { return restarts_used_ - restarts_forgiven(); }
  std::uint32_t node_losses(time_point now) const;  // that still count

  bool is_spent(std::uint32_t restarts_max) const { return restarts_counted() >= restarts_max; }
  // False where it is spent: this one may not be restarted.
  bool charge_restart(std::uint32_t restarts_max);
  void refill() { forgiven_ = restarts_used_; }
  bool charge_node_loss(time_point now, std::uint32_t losses_max);

  // As a record says, or as somebody says who may know of more.
  void set_restarts_used(std::uint32_t recorded) { restarts_used_ = recorded; }
  void raise_restarts_used(std::uint32_t said);
  void set_restarts_forgiven(std::uint32_t recorded) { forgiven_ = recorded; }
  void raise_restarts_forgiven(std::uint32_t said) { forgiven_ = std::max(forgiven_, said); }

 private:
  std::uint32_t restarts_used_ = 0;
  std::uint32_t forgiven_ = 0;
  std::deque<time_point> node_losses_;  // oldest first
};

// Rounds in a row that failed within seconds of their start: how many of them in the same way, so
// that it is known when restarts do not help, and how long to pause before the next one.
//
// A round that ran for longer ends the row. One that nothing failed in (a lost node, a drain, a
// join) says nothing, and leaves it as it is.

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

// Counts how often the workers of each node were the first to fail, and which nodes are left out
// for that: --max-node-failures.

// So many names are counted; those that come later are not.
inline constexpr std::size_t failing_nodes_max = 4096;

class node_failures {
 public:
  // With this one.
  std::uint32_t add(const std::string& name) {
    const bool is_known = nodes_.contains(name);
    if (!is_known && nodes_.size() >= failing_nodes_max) return 0;
    return ++nodes_[name].failures;
  }
  void leave_out(const std::string& name) {
    if (!std::exchange(nodes_[name].is_left_out, true)) ++left_out_;
  }
  void take_back(const std::string& name) {
    if (std::exchange(nodes_[name].is_left_out, false)) --left_out_;
  }
  std::size_t left_out() const { return left_out_; }
  bool is_left_out(const std::string& name) const {
    const auto found = nodes_.find(name);
    return found != nodes_.end() && found->second.is_left_out;
  }
  std::uint32_t of(const std::string& name) const {
    const auto found = nodes_.find(name);
    return found == nodes_.end() ? 0 : found->second.failures;
  }
  // That it is needed all the same: true the first time.
  bool is_news(const std::string& name) {
    bool& was_said = nodes_[name].was_said;
    return !std::exchange(was_said, true);
  }
  // Names of those that are left out, with commas between; empty: none.
  std::string text() const {
    std::string made;
    for (const auto& [name, one] : nodes_) {
      if (one.is_left_out) made += (made.empty() ? "" : ", ") + name;
    }
    return made;
  }

 private:
  struct entry {
    std::uint32_t failures = 0;
    bool is_left_out = false;
    bool was_said = false;
  };
  std::map<std::string, entry> nodes_;
  std::size_t left_out_ = 0;
};

}  // namespace ddprun::core
