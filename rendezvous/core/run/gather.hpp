// What nodes gather in, what the choice of the next round waits for, and who sits out of it:
// DESIGN.md, rules 1, 2, 7, 13 and 14.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::core {

class closed_instances;
struct current_instance;
class entered_phase;
class membership;
struct node;
class outbox;
class persisted_run;
struct rank_assignment;
class roster;
class stale_workers;
class wait_message;

// The nodes that are here for the next round, by what they ask for: nodes that agree on the
// settings are of one group, and each group has its last call. Before the first round there may be
// several groups; from then on there is one, and a node that differs is refused.
//
// Always: a node that is counted is of a group, and a group has no more candidates than nodes. Once
// fixed, a group stays though nobody be left in it.
//
// Ownership: the groups; a node's pointer to its group is set and taken back here.
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
  std::uint32_t highest_ = 0;  // of here_ in this gathering; only a new one restarts the last call
  std::optional<machine_time> last_call_until_;
};

class gathering {
 public:
  void join(node& who);
  void leave(node& who);
  // Whether it is one to be chosen. True where that is another answer than before.
  bool count(node& who, bool is_candidate);
  std::uint32_t here() const { return here_; }  // of all groups

  // A round needs a group that is full, or whose last call is over: the largest of them. Keeps the
  // last calls, so it is asked after every event. `since`: the begin of this gathering.
  settings_group* ready(machine_time now, machine_time since);
  void begin_anew();  // the last calls
  // The largest group; null: nobody is here.
  const settings_group* largest() const;
  // When the last call of a group that has enough nodes is over, as `ready` would say now.
  static std::optional<machine_time> last_call_until(const settings_group& one, machine_time now,
                                                     machine_time since);
  // The next moment at which a last call is over; one that has passed was judged: what is missing
  // then is words of those who are here.
  std::optional<machine_time> deadline(machine_time now) const;

  // From now on there is this group only. The others go as soon as nobody is of them.
  void fix(settings_group& one);
  void forget_others();  // none of whom is left
  void unfix();
  void clear();  // the instance is closed: nobody is of a group

  bool empty() const { return groups_.empty(); }
  std::size_t size() const { return groups_.size(); }
  settings_group& first() { return groups_.front(); }
  const settings_group& first() const { return groups_.front(); }
  std::list<settings_group>::const_iterator begin() const { return groups_.begin(); }
  std::list<settings_group>::const_iterator end() const { return groups_.end(); }

 private:
  static bool is_ready(settings_group& one, machine_time now, machine_time since);

  std::list<settings_group> groups_;
  std::uint32_t here_ = 0;
  bool is_fixed_ = false;
};

// What the next choice waits for when a stop is over: quiet, as losses, drains and joins come in
// groups (a rack, a reservation that ends), or a word of nodes that were silent since before the
// stop, as they may be dying with the others; and always for the end of a pause that was ordered.
class settle_timer {
 public:
  // One more of the group that began with the first loss since they were forgotten.
  void add_loss(machine_time now);
  void forget_losses() { has_losses_ = false; }
  bool wants_quiet() const { return has_losses_; }

  void wait_for_quiet(const timers& timing);
  void wait_for_words(std::uint32_t silent, machine_time until);
  bool is_for_words() const { return is_for_words_; }
  // So many that were silent have not spoken yet; those that went are among them.
  std::uint32_t silent() const { return silent_; }
  void end_silence_of_one();

  void wait_for_pause(machine_time now);  // and nothing else
  // Whatever is lost or said meanwhile.
  void pause_until(machine_time moment) { pause_until_ = moment; }
  void end_pause() { pause_until_.reset(); }
  bool is_pausing(machine_time now) const { return pause_until_ && now < *pause_until_; }
  // There was quiet after losses and drains, while the pause goes on.
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
  bool is_for_words_ = false;
  std::uint32_t silent_ = 0;
  machine_time until_{};
  std::optional<machine_time> pause_until_;
};

// Gathering, choosing, and who sits out.

void note_changes(current_instance& current, time_point real_now, const std::vector<node*>& from,
                  const rank_assignment& chosen);
void forget_changes(current_instance& current, roster& nodes);
assignment assignment_of(const current_instance& current, const membership& of);
std::vector<node*> left_drained(const roster& nodes);
std::string unhealthy_text(const roster& nodes, const std::set<std::uint64_t>& unhealthy);
std::string health_phrase(const current_instance& current, const roster& nodes,
                          const gathering& groups, const std::set<std::uint64_t>& unhealthy);
void dismiss_unhealthy(roster& nodes, const std::set<std::uint64_t>& unhealthy,
                       const wait_message& notice);
void watch_health(std::set<std::uint64_t>& unhealthy, node& who);
void tell_taken(current_instance& current, outbox& out, const std::string& text);
machine_time gather_until(const entered_phase& phase, const current_instance& current,
                          const stale_workers& older, const closed_instances& closed,
                          const persisted_run& earlier, const timers& timing,
                          const machine_clock& clock);

}  // namespace ddprun::core
