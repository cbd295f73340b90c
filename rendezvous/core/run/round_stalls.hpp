// When the run looks whether all ranks of a round stand still, and whether it has said who hangs.
#pragma once

#include "rendezvous/base/machine_clock.hpp"

#include <chrono>
#include <optional>

namespace ddprun::core {

// From a member's word to the look at all: the words of the others are under way.
inline constexpr duration stall_pause = std::chrono::seconds(1);

class round_stalls {
 public:
  // A member has said that its ranks stand still.
  void hear(machine_time now) {
    if (!look_at_) look_at_ = now + stall_pause;
  }
  // Those of one have moved again.
  void move() { is_said_ = false; }
  const std::optional<machine_time>& deadline() const { return look_at_; }

  // It was looked. True: they stand, and it was not said in this stretch.
  bool look(bool do_all_stand) {
    look_at_.reset();
    const bool is_new = do_all_stand && !is_said_;
    is_said_ = do_all_stand;
    return is_new;
  }

 private:
  std::optional<machine_time> look_at_;
  bool is_said_ = false;
};

}  // namespace ddprun::core
