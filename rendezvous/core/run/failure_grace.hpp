// The time that a round goes on after a failure which is the effect of another one, so that the one
// that was first can say why: a worker that cleans up before it ends is heard of last.
#pragma once

#include "rendezvous/base/machine_clock.hpp"

#include <cstddef>
#include <optional>

namespace ddprun::core {

class failure_grace {
 public:
  // From the first effect on; the next ones do not prolong it.
  void begin(machine_time now, duration limit) {
    if (!until_) until_ = now + limit;
  }
  void end() { *this = {}; }

  bool has_begun() const { return until_.has_value(); }
  const std::optional<machine_time>& until() const { return until_; }
  bool is_over(machine_time now) const { return until_ && now >= *until_; }

  // Of so many memberships, from the first on, it is known that no worker is left who could tell.
  // Each is asked about once.
  template <typename IsOver>
  bool are_over(std::size_t memberships, IsOver is_over) {
    while (ranks_over_ < memberships && is_over(ranks_over_))
      ++ranks_over_;
    return ranks_over_ == memberships;
  }

 private:
  std::optional<machine_time> until_;
  std::size_t ranks_over_ = 0;
};

}  // namespace ddprun::core
