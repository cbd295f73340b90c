// Since when no rank of this node has moved, and where each stands.
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/core/messages/stall.hpp"

#include <optional>
#include <utility>

namespace ddprun::core {

class local_stall {
 public:
  // True: it was not so before.
  bool set(std::optional<stall> seen, time_point now) {
    if (!seen && !seen_) return false;
    since_ = now - (seen ? seen->age : duration::zero());
    seen_ = std::move(seen);
    return true;
  }

  std::optional<stall> tell(time_point now) const {
    std::optional<stall> told = seen_;
    if (told) told->age = now - since_;
    return told;
  }

 private:
  std::optional<stall> seen_;
  time_point since_{};
};

}  // namespace ddprun::core
