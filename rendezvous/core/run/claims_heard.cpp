#include "rendezvous/core/run/claims_heard.hpp"

#include <algorithm>

namespace ddprun::core {

void claims_heard::end_wait_if_over(machine_time now) {
  if (until_ && now >= *until_) end_wait();
}

void claims_heard::reopen(machine_time until) {
  ++windows_reopened_;
  until_ = until;
}

void claims_heard::add(instance_id of, round_number newest) {
  if (!newest_.contains(of) && newest_.size() >= newest_claims_max) return;
  round_number& known = newest_[of];
  known = std::max(known, newest);
}

round_number claims_heard::newest_of(instance_id of, round_number least) const {
  const auto found = newest_.find(of);
  return found == newest_.end() ? least : std::max(least, found->second);
}

void claims_heard::settle() {
  newest_.clear();
  end_wait();
}

}  // namespace ddprun::core
