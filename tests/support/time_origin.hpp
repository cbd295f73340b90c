// The time at which tests of pure machines begin, in real time and on a machine's own clock. It can
// be any time but the clock's zero.
#pragma once

#include "rendezvous/base/machine_clock.hpp"

namespace ddprun::tests {

inline constexpr time_point origin{std::chrono::hours(1000)};
inline constexpr machine_time machine_origin{std::chrono::hours(1000)};

// The clock of a machine that has lost no time.
inline machine_clock clock_at(time_point moment) {
  machine_clock clock;
  clock.set(moment);
  return clock;
}

}  // namespace ddprun::tests
