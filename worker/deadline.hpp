// A deadline is the moment until which a blocking call may take, given as that or as a span from
// now on. One deadline may be handed to several calls, which then share the time.
//
//   store.get("model", 30s);
//   const deadline all = 60s;
//   store.wait(keys, all), store.multi_get(keys, all);
//
// There is none that never comes: the longest is `longest`.
//
// Thread rule: plain values; it reads the monotonic clock.
#pragma once

#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <chrono>

namespace ddprun::worker {

class deadline {
 public:
  static constexpr std::chrono::hours longest{24 * 365};

  deadline(time_point at) : at_(at) {}

  // A span below zero is none at all.
  template <typename Rep, typename Period>
  deadline(std::chrono::duration<Rep, Period> limit)
      : at_(std::chrono::steady_clock::now() + bounded(limit)) {}

  time_point at() const { return at_; }
  bool passed() const { return left() == duration::zero(); }
  duration left() const {
    const time_point now = std::chrono::steady_clock::now();
    return at_ > now ? at_ - now : duration::zero();
  }

 private:
  template <typename Rep, typename Period>
  static duration bounded(std::chrono::duration<Rep, Period> limit) {
    using seconds = std::chrono::duration<double>;  // the cast cannot overflow
    if (seconds(limit) >= seconds(longest)) return longest;
    if (seconds(limit) <= seconds(0)) return duration::zero();
    return std::chrono::duration_cast<duration>(limit);
  }

  time_point at_;
};

}  // namespace ddprun::worker
