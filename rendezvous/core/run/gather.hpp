// The groups in which nodes gather, what the choice of the next round waits for, and which nodes
// sit out: DESIGN.md, rules 1, 7, 13 and 14.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::core {

class closed_instances;
struct current_instance;
class entered_phase;
struct headcount;
struct node;
class outbox;
class persisted_run;
class recovery_claims;
class roster;
struct run_options;
class stale_workers;
class wait_message;

// The nodes that are here for the next round, grouped by their settings; each group has its own
// last call. Before the first round there may be several groups; from then on there is one, and a
// node that differs is refused.
//
// Always: a node that is counted belongs to a group, and a group has no more candidates than nodes.
// Once fixed, a group stays even if no node is left in it.
//
// Ownership: owns the groups. Only this class sets a node's pointer to its group.
class settings_group {
 public:
  const run_settings& settings() const { return settings_; }
  std::uint32_t here() const { return here_; }  // candidates that are connected
  bool has_enough() const { return here_ >= settings_.nodes_min; }
  bool is_full() const { return here_ >= settings_.nodes_max; }

 private:
  friend class gathering;

  run_settings settings_;
  std::uint32_t nodes_ = 0;
  std::uint32_t here_ = 0;
  std::uint32_t highest_ = 0;  // of here_ in this gathering; only a new high restarts the call
  std::optional<machine_time> last_call_until_;
};

class gathering {
 public:
  void join(node& who);
  void leave(node& who);
  // Sets whether the node is a candidate. True: that has changed.
  bool count(node& who, bool is_candidate);
  std::uint32_t here() const { return here_; }  // of all groups
  // Those to be chosen from, of all groups, by join order. A daemon may remember thousands more.
  const std::map<std::uint64_t, const node*>& counted() const { return counted_; }

  // The group that a round can start with: the largest of those that are full, or whose last call
  // is over. Also updates the last calls, so it is called after every event. `since`: when this
  // gathering began.
  settings_group* ready(machine_time now, machine_time since);
  void begin_anew();  // starts the last calls over
  // The largest group; null: no node is here.
  const settings_group* largest() const;
  // When the last call of a group that has enough nodes is over, as `ready` would say now.
  static std::optional<machine_time> last_call_until(const settings_group& one, machine_time now,
                                                     machine_time since);
  // The next moment at which a last call ends. One that has ended was judged already: if no round
  // has started then, messages of nodes that are here are missing.
  std::optional<machine_time> deadline(machine_time now) const;

  // From now on this is the only group. Each other one is dropped as soon as it has no nodes.
  void fix(settings_group& one);
  void forget_others();  // which must have no nodes
  void unfix();
  void clear();  // the instance is closed: no node belongs to a group

  bool empty() const { return groups_.empty(); }
  std::size_t size() const { return groups_.size(); }
  settings_group& first() { return groups_.front(); }
  const settings_group& first() const { return groups_.front(); }
  std::list<settings_group>::const_iterator begin() const { return groups_.begin(); }
  std::list<settings_group>::const_iterator end() const { return groups_.end(); }

 private:
  static bool is_ready(settings_group& one, machine_time now, machine_time since);

  std::list<settings_group> groups_;
  std::map<std::uint64_t, const node*> counted_;
  std::uint32_t here_ = 0;
  bool is_fixed_ = false;
};

// What the next choice waits for when a stop is over: quiet, because losses, drains and joins come
// in groups (a rack, a reservation that ends); or messages of nodes that were silent since before
// the stop, because they may be dying with the others. It always waits for the end of a pause that
// was ordered.
class settle_timer {
 public:
  // Adds a loss to the group that began with the first loss since `forget_losses`.
  void add_loss(machine_time now);
  void forget_losses() { has_losses_ = false; }
  bool wants_quiet() const { return has_losses_; }

  void wait_for_quiet(const timers& timing);
  void wait_for_messages(std::uint32_t silent, machine_time until);
  bool is_for_messages() const { return is_for_messages_; }
  // How many silent nodes have not sent a message yet; those that have gone since are among them.
  std::uint32_t silent() const { return silent_; }
  void end_silence_of_one();

  void wait_for_pause(machine_time now);  // and for nothing else
  // The pause lasts until then, whatever is lost or said meanwhile.
  void pause_until(machine_time moment) { pause_until_ = moment; }
  void end_pause() { pause_until_.reset(); }
  bool is_pausing(machine_time now) const { return pause_until_ && now < *pause_until_; }
  // It has been quiet after losses and drains, while the pause goes on.
  bool is_quiet_in_pause(machine_time now) const {
    return has_losses_ && is_pausing(now) && now >= until_;
  }

  machine_time until(machine_time now) const {
    return is_pausing(now) && now >= until_ ? *pause_until_ : until_;
  }
  bool is_over(machine_time now) const;

 private:
  bool has_losses_ = false;
  machine_time first_loss_{};
  machine_time last_loss_{};
  bool is_for_messages_ = false;
  std::uint32_t silent_ = 0;
  machine_time until_{};
  std::optional<machine_time> pause_until_;
};

// Gathering, and who sits out.

std::string unhealthy_text(const roster& nodes);
std::string health_phrase(const current_instance& current, const roster& nodes,
                          const gathering& groups);
void dismiss_unhealthy(roster& nodes, const wait_message& waiting);
void watch_health(roster& nodes, node& who);
void tell_taken(current_instance& current, outbox& out, const std::string& text);
machine_time gather_until(const entered_phase& phase, const current_instance& current,
                          const stale_workers& stale, const closed_instances& closed,
                          const persisted_run& persisted, const timers& timing,
                          const machine_clock& clock);
void need_unhealthy(const headcount& counts, current_instance& current, outbox& out, node& who);
void take_back(const headcount& counts, current_instance& current, outbox& out,
               const std::vector<node*>& agents);
void take_reserves(const headcount& counts, current_instance& current, outbox& out);
void release_unneeded(const headcount& counts, const current_instance& current);

}  // namespace ddprun::core
