// The way out of this node: that it is asked to leave, by whom, and with which last word; or that
// it is fenced, and joins anew.
//
// A first signal drains: the node takes its workers down, says so, and leaves when the daemon tells
// it to, or by itself when there is nobody to tell it. A second one kills, and it leaves at once.
//
// Always: only who drains is drained.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/core/agent/agent.hpp"

namespace ddprun::core {

class shutdown_state {
 public:
  using moment = std::optional<time_point>;

  // The workers die, and the node joins anew.
  void fence() { is_fenced_ = true; }
  // They are gone. Was it fenced?
  bool end_fence();

  // With this last word, once no worker lives; a later one replaces it.
  void leave_with(leave last) { leaving_ = std::move(last); }
  const std::optional<leave>& leaving() const { return leaving_; }

  // A person's signal. True: it is the first.
  bool take_signal(int signal);
  int signal() const { return signal_; }  // the newest; 0: none
  int exit_code() const { return exit_code_of_signal(signal_); }
  void drain() { is_draining_ = true; }
  bool is_draining() const { return is_draining_; }
  // No worker lives here, or only such as no signal ends.
  void workers_are_down(machine_time now);
  // When who drains leaves without a word of the daemon. `daemon_lease`: when the newest status
  // that it answered was sent; `limit`: for how long that holds.
  moment deadline(const machine_clock& clock, const timers& timing, duration limit,
                  const moment& daemon_lease, bool is_connected) const;

 private:
  bool is_fenced_ = false;
  std::optional<leave> leaving_;
  bool is_draining_ = false;
  int signal_ = 0;
  unsigned signals_ = 0;
  std::optional<machine_time> drained_at_;
};

}  // namespace ddprun::core
