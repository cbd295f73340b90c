// What an earlier daemon has kept of an instance that was open when it died. It is there for as
// long as it is the most that is known: until somebody is placed here, or the instance is over.
//
// It knows which members of that instance's newest round are back: if all of them are, they have
// died together, and the same commands were started again.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/run/members_by_name.hpp"
#include "rendezvous/core/run/run_record.hpp"

#include <optional>
#include <string>

namespace ddprun::core {

class persisted_run {
 public:
  // Since when its nodes have been without a daemon. None of them is here yet.
  void begin(run_record record, machine_time since);
  void drop() { *this = {}; }

  bool is_there() const { return record_.has_value(); }
  const std::optional<run_record>& record() const { return record_; }
  bool is_of(instance_id which) const { return record_ && record_->instance == which; }

  void count(const std::string& name, bool is_here) { members_.count(name, is_here); }
  const members_by_name& members() const { return members_; }

  // No worker of its newest round lives from then on. None: nothing is known of any, or all its
  // members are here again.
  std::optional<machine_time> living_until() const;
  // The same, wherever its members are.
  machine_time gone_at() const;
  // If no agent has come back by then, the instance is lost.
  machine_time lost_at() const;

 private:
  std::optional<run_record> record_;
  machine_time since_{};
  members_by_name members_;
};

}  // namespace ddprun::core
