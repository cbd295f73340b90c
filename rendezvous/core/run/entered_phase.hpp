// The phase of a run, and since when it is in it.
//
// Thread rule: plain value.
#pragma once

#include "rendezvous/core/run/run.hpp"

namespace ddprun::core {

class entered_phase {
 public:
  // It is asked at every turn: written as if it were the phase itself.
  operator run_phase() const { return phase_; }  // NOLINT(google-explicit-constructor)
  time_point since() const { return since_; }

  void enter(run_phase next, time_point at) { phase_ = next, since_ = at; }
  // The caller's loop stood still for so long.
  void move_by(duration late) { since_ += late; }

 private:
  run_phase phase_ = run_phase::gathering;
  time_point since_{};
};

}  // namespace ddprun::core
