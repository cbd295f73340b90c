// The nodes that are here for the next round, by what they ask for: nodes that agree on the
// settings are of one group, and each group has its last call. Before the first round there may be
// several groups; from then on there is one, and a node that differs is refused.
//
// Always: a node that is counted is of a group, and a group has no more candidates than nodes. Once
// fixed, a group stays though nobody be left in it.
//
// Ownership: the groups; a node's pointer to its group is set and taken back here.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <list>
#include <optional>

namespace ddprun::core {

struct node;

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

}  // namespace ddprun::core
