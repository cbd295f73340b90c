// A machine's clock: real time less the time that its loop lost by standing still. Nothing can be
// heard while a loop stands still, so nothing may become due; a machine that keeps its moments on
// this clock need not move them.
//
// Moments that must not be delayed are a time_point: when workers elsewhere have ended, how old a
// record is, when a lease ends. The two have different types, so code that mixes them does not
// compile; only the clock converts one into the other.
#pragma once

#include "rendezvous/base/time.hpp"

namespace ddprun {

// Only names the kind of moment; the clock itself is machine_clock.
struct machine_time_kind {
  using duration = ddprun::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<machine_time_kind>;
  static constexpr bool is_steady = true;
};
using machine_time = machine_time_kind::time_point;

class machine_clock {
 public:
  // The caller supplies the time, and how long its loop stood still.
  void set(time_point real_now) { real_now_ = real_now; }
  void lose(duration late) { lost_ += late; }

  time_point real_now() const { return real_now_; }
  machine_time now() const { return own(real_now_); }
  machine_time own(time_point real) const { return machine_time(real.time_since_epoch() - lost_); }
  time_point real(machine_time own) const { return time_point(own.time_since_epoch() + lost_); }

 private:
  time_point real_now_{};
  duration lost_{};
};

}  // namespace ddprun
