// What a daemon that was started again waits for.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <map>
#include <optional>

namespace ddprun::core {

// What is waited for when nodes come with an instance that this daemon does not know: until when
// the others of it may still come, and the newest round that any of each instance has named, also
// of those who are gone again.
//
// Always: at most newest_claims_max instances are remembered.

inline constexpr std::size_t newest_claims_max = 64;
inline constexpr std::uint32_t windows_reopened_max = 8;  // by claimants, in one instance

class recovery_claims {
 public:
  bool is_waiting() const { return until_.has_value(); }
  const std::optional<machine_time>& until() const { return until_; }
  void wait_until(machine_time until) { until_ = until; }
  void end_wait() { until_.reset(); }
  void end_wait_if_over(machine_time now);
  // Somebody came when that was over.
  void reopen(machine_time until);
  bool may_reopen() const { return windows_reopened_ < windows_reopened_max; }

  void add(instance_id of, round_number newest);
  // Or `least`, where no newer one was named.
  round_number newest_of(instance_id of, round_number least) const;
  // An instance was taken: what the others have named counts no longer.
  void settle();

 private:
  std::optional<machine_time> until_;  // none: nobody is waited for
  std::uint32_t windows_reopened_ = 0;
  std::map<instance_id, round_number> newest_;
};

}  // namespace ddprun::core
