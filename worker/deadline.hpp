// A deadline is the time by which a blocking call must return. It is built from a time point or
// from a span that starts now. One deadline can be passed to several calls, which then share the
// time.
//
//   store.get("model", 30s);
//   const deadline all = 60s;
//   store.wait(keys, all), store.multi_get(keys, all);
//
// There is no infinite deadline: the longest span is `longest`.
//
// Thread rule: plain values. It reads the monotonic clock.
#pragma once

#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <chrono>

namespace ddprun::worker {

class deadline {
 public:
  static constexpr std::chrono::hours longest{24 * 365};

  deadline(time_point at) : at_(at) {}

  // A negative span counts as zero.
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
    using seconds = std::chrono::duration<double>;  // a double, so that the cast cannot overflow
    if (seconds(limit) >= seconds(longest)) return longest;
    if (seconds(limit) <= seconds(0)) return duration::zero();
    return std::chrono::duration_cast<duration>(limit);
  }

  time_point at_;
};

}  // namespace ddprun::worker
