#include "rendezvous/core/run/choice_wait.hpp"

#include "rendezvous/base/error.hpp"

#include <algorithm>

namespace ddprun::core {

void choice_wait::add_loss(machine_time now) {
  if (!has_losses_) first_loss_ = now;
  has_losses_ = true;
  last_loss_ = now;
}

void choice_wait::wait_for_quiet(const timers& timing) {
  DDPRUN_ASSERT(has_losses_);
  is_for_words_ = false;
  until_ = std::min(last_loss_ + timing.settle, first_loss_ + timing.settle_max);
}

void choice_wait::wait_for_words(std::uint32_t silent, machine_time until) {
  DDPRUN_ASSERT(silent != 0);
  is_for_words_ = true;
  silent_ = silent;
  until_ = until;
}

void choice_wait::end_silence_of_one() {
  DDPRUN_ASSERT(silent_ != 0);
  --silent_;
}

void choice_wait::wait_for_pause(machine_time now) {
  is_for_words_ = false;
  until_ = now;
}

bool choice_wait::is_over(machine_time now) const {
  if (is_pausing(now)) return false;
  return now >= until_ || (is_for_words_ && silent_ == 0);
}

}  // namespace ddprun::core
