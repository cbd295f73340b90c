// A lateness watch tells a loop that it stood still, so that nothing is held against others for it:
// the loop says when it expects to be back at the latest, and asks before each input it takes.
//
// Before the input, not after: what has waited in a socket meanwhile is to be judged by deadlines
// that have moved already.
//
// It has no clock of its own.
#pragma once

#include "rendezvous/base/time.hpp"

#include <optional>

namespace ddprun {

class lateness_watch {
 public:
  // Less is within what the timers' margins cover.
  static constexpr duration counts_from = std::chrono::milliseconds(100);

  void expect(time_point when) { expected_ = when; }
  void expect_nothing() { expected_.reset(); }

  // By how much the loop is late, where that counts; told once.
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
