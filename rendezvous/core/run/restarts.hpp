// What failures cost an instance: restarts and node losses, quick failures in a row, and how often
// each node failed first; the cause of a failed round, and what is said of it. DESIGN.md, rules 5,
// 6, 11, 12 and 13.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/base/machine_timers.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/run_record.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::core {

struct current_instance;
class dead_members;
class entered_phase;
class gathering;
struct headcount;
struct node;
class outbox;
class recovery_claims;
class roster;
class round_age;
class round_memberships;
class round_numbers;
class round_stop;
struct run_options;
class settle_timer;

// What an instance has been charged: failures of workers against --max-restarts, losses of nodes
// within an hour against --max-node-losses.
//
// The number of restarts used never falls. When --restart-window refills the budget, the restarts
// used so far are forgiven: they no longer count against --max-restarts.

inline constexpr duration node_loss_window = std::chrono::hours(1);

class restart_budget {
 public:
  std::uint32_t restarts_used() const { return restarts_used_; }
  std::uint32_t restarts_forgiven() const { return std::min(forgiven_, restarts_used_); }
  std::uint32_t restarts_counted() const { return restarts_used_ - restarts_forgiven(); }
  std::uint32_t node_losses(time_point now) const;  // that still count

  bool is_spent(std::uint32_t restarts_max) const { return restarts_counted() >= restarts_max; }
  // False: the budget is spent, so this failure gets no restart.
  bool charge_restart(std::uint32_t restarts_max);
  void refill() { forgiven_ = restarts_used_; }
  bool charge_node_loss(time_point now, std::uint32_t losses_max);

  // From a record, or from an agent that may know of more.
  void set_restarts_used(std::uint32_t recorded) { restarts_used_ = recorded; }
  void raise_restarts_used(std::uint32_t said);
  void set_restarts_forgiven(std::uint32_t recorded) { forgiven_ = recorded; }
  void raise_restarts_forgiven(std::uint32_t said) { forgiven_ = std::max(forgiven_, said); }

 private:
  std::uint32_t restarts_used_ = 0;
  std::uint32_t forgiven_ = 0;
  std::deque<time_point> node_losses_;  // oldest first
};

// Rounds in a row that failed within seconds of their start, and how many of them failed alike:
// from that follows when restarts do not help, and how long to pause before the next round.
//
// A round that ran for longer ends the row. A round in which nothing failed (a lost node, a drain,
// a join) does not change it.

// The pause before the third round. It doubles with each round after that.
inline constexpr duration first_pause = std::chrono::seconds(1);

// Whether both are the same failure, on whatever rank and node: exit code and text agree, ignoring
// words with a digit (a step, an address, a process).
bool is_same_failure(const cause& one, const cause& other);

// Whether the cause itself says why the worker failed. The root cause of a secondary failure is
// elsewhere, and a worker that our own stop ended has none.
bool is_failure_of_its_own(const cause& why);

class quick_failures {
 public:
  // Adds a failure that is charged, `after` the start of its round. `node`: the name of its node;
  // `all_failed`: each of several ranks ended on its own.
  void add(const cause& first, duration after, const std::string& node, bool all_failed);
  void end_row() { *this = {}; }
  // The next round has other nodes, so that the failures so far say nothing about it.
  void forget_alike();

  std::uint32_t in_row() const { return in_row_; }
  // How many of the newest failed in the same way, or with all ranks each.
  std::uint32_t alike() const { return std::max(same_, all_failed_); }
  bool are_same() const { return same_ >= all_failed_; }
  // The longest of those took this long; in whole seconds, at least 1 s.
  duration within() const;
  // The node on which all of those failed first; empty: they were on several, or of the whole job.
  const std::string& node() const { return node_; }
  // How long to pause before the next round.
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

// The most names that are counted; later ones are ignored.
inline constexpr std::size_t failing_nodes_max = 4096;

class node_failures {
 public:
  // Counts a failure, and returns how many that makes; 0: no room for this name.
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
  // It is said that the node is needed nevertheless. True the first time.
  bool is_news(const std::string& name) {
    bool& was_said = nodes_[name].was_said;
    return !std::exchange(was_said, true);
  }
  // The names of nodes that are left out, separated by commas; empty: none.
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

// Causes, and what is said of a round.

cause cause_of(const round_numbers& rounds, const node& who, cause_class kind);
void collect_causes(const round_numbers& rounds, root_cause& causes, time_point real_now,
                    const node& who);
void keep_tails(const status& before, status& newest);
bool is_drain(const node& member, const cause& one);
std::optional<cause> final_cause(const round_numbers& rounds, const round_memberships& memberships,
                                 const root_cause& causes, const round_stop& stop,
                                 const machine_clock& clock);
duration lasted_so_far(const entered_phase& phase, const round_age& age, machine_time now);
void add_report(current_instance& current, const round_numbers& rounds,
                const round_memberships& memberships, const dead_members& dead,
                const std::optional<cause>& why);
std::string what_is_next(const current_instance& current, time_point real_now,
                         const std::optional<cause>& charged);
std::string why_it_ends(const std::optional<cause>& why, const std::string& text);
void tell_report(current_instance& current, const roster& nodes, outbox& out, bool is_last,
                 int exit_code, std::string next);
void tell_what_is_next(current_instance& current, const roster& nodes, outbox& out);
void tell_report_again(const current_instance& current, outbox& out, node& who);

// What a failure costs.

struct blamed_node {
  session_id session;
  std::string name;   // node::position_name()
  std::string label;  // in messages
  std::uint32_t failures = 0;
  bool is_left_out = false;  // from now on
};
blamed_node blame(current_instance& current, const round_memberships& memberships,
                  const std::optional<cause>& why);
std::optional<run_end> end_beyond_budget(const current_instance& current, time_point real_now,
                                         const cause& why);
std::optional<run_end> charge(current_instance& current, const roster& nodes, time_point real_now,
                              const std::optional<cause>& why, blamed_node& by);
bool can_do_without(const current_instance& current, const roster& nodes, const blamed_node& one);
std::string why_it_gives_up(const current_instance& current);
std::string quick_row_text(const current_instance& current, const timers& timing);
bool is_short(const entered_phase& phase, const current_instance& current, const gathering& groups);
std::string left_out_text(const run_options& options, const current_instance& current,
                          const std::string& name);
std::string health_advice(const node& who);
std::string left_out_advice(const current_instance& current, const std::string& name);
void end_age(current_instance& current, const round_age& age, machine_time now,
             const timers& timing);
duration pause_before_next(const current_instance& current, settle_timer& settle, machine_time now,
                           const timers& timing, const std::optional<cause>& charged);
std::string leave_out(current_instance& current, outbox& out, const blamed_node& by);
std::string how_it_goes_on(current_instance& current, settle_timer& settle, machine_time now,
                           const timers& timing, outbox& out, const std::optional<cause>& charged,
                           const blamed_node& by);
timer_moment refill_at(const entered_phase& phase, const current_instance& current,
                       const round_age& age, const root_cause& causes, const timers& timing);
void dismiss(const run_options& options, const headcount& counts, current_instance& current,
             recovery_claims& claims, outbox& out, const blamed_node& one);
void refuse_left_out(const run_options& options, const headcount& counts, current_instance& current,
                     recovery_claims& claims, outbox& out);

}  // namespace ddprun::core
