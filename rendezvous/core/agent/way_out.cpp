#include "rendezvous/core/agent/way_out.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

bool way_out::end_fence() {
  return std::exchange(is_fenced_, false);
}

bool way_out::take_signal(int signal) {
  signal_ = signal;
  return ++signals_ == 1;
}

void way_out::workers_are_down(machine_time now) {
  if (is_draining_ && !drained_at_) drained_at_ = now;
}

// It leaves when the daemon says close; by itself when no daemon can be reached, or none says so
// for longer than the other nodes can take to stop.
way_out::moment way_out::deadline(const machine_clock& clock, const timers& timing, duration limit,
                                  const moment& daemon_vouched, bool is_connected) const {
  if (!drained_at_ || leaving_) return std::nullopt;
  const time_point drained_at = clock.real(*drained_at_);
  const time_point patience = drained_at + timing.drain_grace + timing.kill_wait +
                              timing.node_timeout + 2 * timing.isolation_limit;
  if (daemon_vouched) return std::min(patience, *daemon_vouched + limit);
  return is_connected ? std::min(patience, drained_at + limit) : clock.real_now();
}

}  // namespace ddprun::core
