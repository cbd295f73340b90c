// The guardian's rule until when an agent's workers may live without another beat, without a clock
// or a pipe of its own.
//
// The agent enforces the same limit itself, and does it better; so the guardian comes `margin`
// later, which is within the daemon's tolerance for a late kill. After a guardian has stood still
// itself, it cannot know whether the agent did, too, or has sent a beat that is still unread: it
// then waits for a beat once, for `grace`.
#pragma once

#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace ddprun::launcher {

class life_limit {
 public:
  static constexpr duration margin = std::chrono::milliseconds(100);
  // A shorter delay does not count as standing still.
  static constexpr duration lateness_counts_from = std::chrono::milliseconds(100);

  // A beat has arrived.
  void set(time_point until, duration grace) {
    due_ = until + margin;
    grace_ = grace;
    is_put_off_ = false;
  }
  void lift() { due_.reset(); }

  // For poll(): -1 without a limit.
  int wait_ms(time_point now) const {
    if (!due_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due_ - now).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, wait_most_ms));
  }

  // True, once for each limit: kill the workers now. Call it only when all messages of the agent
  // have been read.
  bool is_over(time_point now) {
    if (!due_ || now < *due_) return false;
    if (!is_put_off_ && now - *due_ >= lateness_counts_from) {
      is_put_off_ = true;
      due_ = now + grace_;
      return false;
    }
    due_.reset();
    return true;
  }

 private:
  static constexpr std::int64_t wait_most_ms = 60'000;

  std::optional<time_point> due_;
  duration grace_{};
  bool is_put_off_ = false;
};

}  // namespace ddprun::launcher
