// How long the newest round has run, and so whether a failure that ends it is a quick one: it comes
// within `startup_window` from when all workers ran, or before. Made anew for each round.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/settings.hpp"

#include <optional>

namespace ddprun::core {

class round_age {
 public:
  // It is prepared.
  void begin(machine_time now) {
    *this = {};
    began_ = now;
  }
  // An earlier daemon's, which may have run for hours: its end is never a quick one.
  // None: no worker of it was started, as far as is known.
  void begin_found(const std::optional<machine_time>& since) {
    *this = {};
    ran_since_ = since;
  }
  // Its workers may start now.
  void begin_running(machine_time now) {
    begin(now);
    ran_since_ = now;
  }
  void all_run(machine_time now) { all_run_since_ = now; }

  // From when its workers might start; zero: they were not to.
  duration lasted(machine_time now) const {
    return ran_since_ ? now - *ran_since_ : duration::zero();
  }

  const std::optional<machine_time>& all_run_since() const { return all_run_since_; }
  // How long after its start, where it ends quickly now. One that has not started in time has not
  // failed quickly either.
  std::optional<duration> quick_end(machine_time now, const timers& timing) const {
    if (!began_) return std::nullopt;
    const duration passed = now - all_run_since_.value_or(*began_);
    const duration limit = all_run_since_ ? timing.startup_window : timing.start_timeout;
    if (passed >= limit) return std::nullopt;
    return passed;
  }

 private:
  std::optional<machine_time> began_;
  std::optional<machine_time> ran_since_;
  std::optional<machine_time> all_run_since_;
};

}  // namespace ddprun::core
