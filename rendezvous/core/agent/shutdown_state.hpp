// How this node shuts down: whether it was asked to leave, by which signal, and with which last
// effect; or whether it is fenced, and joins again.
//
// The first signal drains: the node stops its workers, says so, and leaves when the daemon tells it
// to, or by itself if there is no daemon. A second signal kills the workers, and the node leaves at
// once.
//
// Always: `drained_at_` is set only while draining.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/core/agent/agent_machine.hpp"

namespace ddprun::core {

class shutdown_state {
 public:
  using moment = std::optional<time_point>;

  // The workers are killed, and the node joins again.
  void fence() { is_fenced_ = true; }
  // The workers are gone. True: the node was fenced.
  bool end_fence();

  // The last effect, once no worker lives; a later one replaces it.
  void leave_with(leave last) { leaving_ = std::move(last); }
  const std::optional<leave>& leaving() const { return leaving_; }

  // A user's signal. True: it is the first.
  bool take_signal(int signal);
  int signal() const { return signal_; }  // the newest; 0: none
  int exit_code() const { return exit_code_of_signal(signal_); }
  void drain() { is_draining_ = true; }
  bool is_draining() const { return is_draining_; }
  // No worker lives here, except those that no signal ends.
  void workers_are_down(machine_time now);
  // When a draining node leaves without a message from the daemon. `daemon_lease`: when the newest
  // status that the daemon acknowledged was sent; `limit`: how long that holds.
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
