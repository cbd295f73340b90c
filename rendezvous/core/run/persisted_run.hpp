// What an earlier daemon has kept of an instance that was open when it died. It is there for as
// long as it is the most that is known: until somebody is placed here, or the instance is over.
//
// It knows which members of that instance's newest round are back: if all of them are, they have
// died together, and the same commands were started again.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/run/run_record.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::core {

class persisted_run {
 public:
  // Since when its nodes have been without a daemon. None of them is here yet.
  void begin(run_record record, machine_time since);
  void drop() { *this = {}; }

  bool is_there() const { return record_.has_value(); }
  const std::optional<run_record>& record() const { return record_; }
  bool is_of(instance_id which) const { return record_ && record_->instance == which; }

  // A node of that name (lasting_name) is a candidate here from now on, or no longer. Several may
  // have one name, and so may several members.
  void count(const std::string& name, bool is_here);

  // No worker of its newest round lives from then on. None: nothing is known of any, or all its
  // members are here again.
  std::optional<machine_time> living_until() const;
  // Members that are not here, if it is known who they are: some names, and how many in all.
  std::vector<std::string> missing_names() const;
  std::size_t missing() const { return missing_; }
  // If no agent has come back by then, the instance is lost.
  machine_time lost_at() const;

 private:
  std::optional<run_record> record_;
  machine_time since_{};
  // How many more members have that name than are here; negative where more are here.
  std::map<std::string, std::int64_t> short_of_;
  std::size_t missing_ = 0;  // members, also those whose names are not known
};

}  // namespace ddprun::core
