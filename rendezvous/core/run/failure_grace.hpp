// The time that a round goes on after a failure which is the effect of another one, so that the one
// that was first can say why: a worker that cleans up before it ends is heard of last.
//
// Thread rule: plain value.
#pragma once

#include "rendezvous/base/time.hpp"

#include <optional>

namespace ddprun::core {

class failure_grace {
 public:
  // From the first effect on; the next ones do not prolong it.
  void begin(time_point now, duration limit) {
    if (!until_) until_ = now + limit;
  }
  void end() { until_.reset(); }

  bool has_begun() const { return until_.has_value(); }
  const std::optional<time_point>& until() const { return until_; }
  bool is_over(time_point now) const { return until_ && now >= *until_; }

  // The caller's loop stood still for so long.
  void move_by(duration late) {
    if (until_) *until_ += late;
  }

 private:
  std::optional<time_point> until_;
};

}  // namespace ddprun::core
