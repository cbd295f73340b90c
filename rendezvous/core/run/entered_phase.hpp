// The phase of a run, and since when it is in it.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/run/run.hpp"

namespace ddprun::core {

class entered_phase {
 public:
  // It is asked at every turn: written as if it were the phase itself.
  operator run_phase() const { return phase_; }  // NOLINT(google-explicit-constructor)
  machine_time since() const { return since_; }

  void enter(run_phase next, machine_time at) { phase_ = next, since_ = at; }

 private:
  run_phase phase_ = run_phase::gathering;
  machine_time since_{};
};

}  // namespace ddprun::core
