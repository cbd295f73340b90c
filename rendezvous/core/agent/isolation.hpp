// What changes when workers must end because no peer renews their lease.
#pragma once

#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <optional>

namespace ddprun::core {

class isolation_state {
 public:
  using moment = std::optional<time_point>;

  // The tethers are let go: the other members have renewed the lease until now, and will not again.
  void freeze(const moment& others) {
    if (!frozen_) frozen_ = others;
  }
  const moment& frozen() const { return frozen_; }

  // After a late loop the workers are not ended before `until`. This happens once, until the lease
  // has been renewed in time.
  void put_off(time_point until) {
    if (!put_off_until_) put_off_until_ = until;
  }
  void renewed_in_time() { put_off_until_.reset(); }
  moment put_off_from(const moment& due) const {
    return due && put_off_until_ ? std::max(*due, *put_off_until_) : due;
  }

  // The workers were asked to end, because there has long been no daemon.
  void ask() { is_asked_ = true; }
  bool is_asked() const { return is_asked_; }

 private:
  moment frozen_;
  moment put_off_until_;
  bool is_asked_ = false;
};

}  // namespace ddprun::core
