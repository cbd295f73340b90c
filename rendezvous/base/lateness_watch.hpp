// A lateness watch notices that a loop stood still, so that others are not blamed for it: the loop
// says when it expects to run next at the latest, and checks before each input.
//
// It checks before the input and not after it, because input that has waited in a socket must be
// judged by deadlines that have already moved.
//
// It has no clock of its own.
#pragma once

#include "rendezvous/base/time.hpp"

#include <optional>

namespace ddprun {

class lateness_watch {
 public:
  // Less than this is covered by the timers' margins.
  static constexpr duration counts_from = std::chrono::milliseconds(100);

  void expect(time_point when) { expected_ = when; }
  void expect_nothing() { expected_.reset(); }

  // Reports once by how much the loop is late, if it is enough to count.
  std::optional<duration> notice(time_point now) {
    if (!expected_ || now - *expected_ < counts_from) return std::nullopt;
    const duration late = now - *expected_;
    expected_ = now;
    return late;
  }

 private:
  std::optional<time_point> expected_;
};

}  // namespace ddprun
