// What an earlier daemon has kept of an instance that was open when it died. It is there for as
// long as it is the most that is known: until somebody is placed here, or the instance is over.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/run/run_record.hpp"

#include <optional>
#include <utility>

namespace ddprun::core {

class persisted_run {
 public:
  // Since when its nodes have been without a daemon.
  void begin(run_record record, machine_time since) { record_ = std::move(record), since_ = since; }
  void drop() { record_.reset(); }

  bool is_there() const { return record_.has_value(); }
  const std::optional<run_record>& record() const { return record_; }
  bool is_of(instance_id which) const { return record_ && record_->instance == which; }

  // No worker of its newest round lives from then on. None: nothing is known of any, as with
  // no record; as many nodes as it had are all of them, who
  // have died together and came again.
  std::optional<machine_time> living_until(std::uint32_t nodes_here) const;
  // If no agent has come back by then, the instance is lost.
  machine_time lost_at() const;

 private:
  std::optional<run_record> record_;
  machine_time since_{};
};

}  // namespace ddprun::core
