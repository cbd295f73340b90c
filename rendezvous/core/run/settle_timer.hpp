// What the next choice waits for when a stop is over: quiet, as losses, drains and joins come in
// groups (a rack, a reservation that ends), or a word of nodes that were silent since before the
// stop, as they may be dying with the others; and always for the end of a pause that was ordered.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::core {

class settle_timer {
 public:
  // One more of the group that began with the first loss since they were forgotten.
  void add_loss(machine_time now);
  void forget_losses() { has_losses_ = false; }
  bool wants_quiet() const { return has_losses_; }

  void wait_for_quiet(const timers& timing);
  void wait_for_words(std::uint32_t silent, machine_time until);
  bool is_for_words() const { return is_for_words_; }
  // So many that were silent have not spoken yet; those that went are among them.
  std::uint32_t silent() const { return silent_; }
  void end_silence_of_one();

  void wait_for_pause(machine_time now);  // and nothing else
  // Whatever is lost or said meanwhile.
  void pause_until(machine_time moment) { pause_until_ = moment; }
  void end_pause() { pause_until_.reset(); }
  bool is_pausing(machine_time now) const { return pause_until_ && now < *pause_until_; }
  // There was quiet after losses and drains, while the pause goes on.
  bool is_quiet_in_pause(machine_time now) const {
    return has_losses_ && is_pausing(now) && now >= until_;
  }

  machine_time until(machine_time now) const {
    return is_pausing(now) && now >= until_ ? *pause_until_ : until_;
  }
  bool is_over(machine_time now) const;

 private:
  bool has_losses_ = false;
  machine_time first_loss_{};
  machine_time last_loss_{};
  bool is_for_words_ = false;
  std::uint32_t silent_ = 0;
  machine_time until_{};
  std::optional<machine_time> pause_until_;
};

}  // namespace ddprun::core
