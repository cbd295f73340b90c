// Until when the workers of an agent may live unless it says more: the guardian's rule, without a
// clock or a pipe of its own.
//
// The agent acts on the same moment itself, and is the better one to do so; the guardian comes
// `margin` later, which is within what the daemon allows for a late kill. A guardian that stood
// still cannot tell an agent that did from one that has not come to speak since: it waits for a
// beat once, for `grace`.
#pragma once

#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace ddprun::launcher {

class life_limit {
 public:
  static constexpr duration margin = std::chrono::milliseconds(100);
  // Less is no standing still.
  static constexpr duration lateness_counts_from = std::chrono::milliseconds(100);

  // A beat.
  void set(time_point until, duration grace) {
    due_ = until + margin;
    grace_ = grace;
    is_put_off_ = false;
  }
  void lift() { due_.reset(); }

  // For poll(): -1 where there is no limit.
  int wait_ms(time_point now) const {
    if (!due_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due_ - now).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, wait_most_ms));
  }

  // True, once for each limit: the workers are to be killed now. To be asked only when everything
  // that the agent has said was heard.
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
