// What the next choice waits for when a stop is over: quiet, as losses, drains and joins come in
// groups (a rack, a reservation that ends), or a word of nodes that were silent since before the
// stop, as they may be dying with the others; and always for the end of a pause that was ordered.
//
// Thread rule: plain value.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::core {

class choice_wait {
 public:
  // One more of the group that began with the first loss since they were forgotten.
  void add_loss(time_point now);
  void forget_losses() { has_losses_ = false; }
  bool wants_quiet() const { return has_losses_; }

  void wait_for_quiet(const timers& timing);
  void wait_for_words(std::uint32_t silent, time_point until);
  bool is_for_words() const { return is_for_words_; }
  // So many that were silent have not spoken yet; those that went are among them.
  std::uint32_t silent() const { return silent_; }
  void end_silence_of_one();

  void wait_for_pause(time_point now);  // and nothing else
  // Whatever is lost or said meanwhile.
  void pause_until(time_point moment) { pause_until_ = moment; }
  void end_pause() { pause_until_.reset(); }
  bool is_pausing(time_point now) const { return pause_until_ && now < *pause_until_; }
  // There was quiet after losses and drains, while the pause goes on.
  bool is_quiet_in_pause(time_point now) const {
    return has_losses_ && is_pausing(now) && now >= until_;
  }

  time_point until(time_point now) const {
    return is_pausing(now) && now >= until_ ? *pause_until_ : until_;
  }
  bool is_over(time_point now) const;

  // The caller's loop stood still for so long.
  void move_by(duration late);

 private:
  bool has_losses_ = false;
  time_point first_loss_{};
  time_point last_loss_{};
  bool is_for_words_ = false;
  std::uint32_t silent_ = 0;
  time_point until_{};
  std::optional<time_point> pause_until_;
};

}  // namespace ddprun::core
