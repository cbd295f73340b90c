#include "rendezvous/core/run/round_stop.hpp"

#include "rendezvous/base/error.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

round_stop::round_stop(machine_time now, std::uint64_t step, duration patience, bool is_free,
                       std::shared_ptr<const daemon_message> message)
    : ordered_at_(now),
      told_at_(now),
      step_(step),
      patience_(patience),
      is_free_(is_free),
      message_(std::move(message)) {
  DDPRUN_ASSERT(step != 0);
}

void round_stop::acknowledge(machine_time now, bool is_leader) {
  DDPRUN_ASSERT(step_ != 0);
  if (!first_acknowledged_) first_acknowledged_ = now;
  if (is_leader) leader_acknowledged_ = now;
}

void round_stop::vouched_until(machine_time last_word) {
  DDPRUN_ASSERT(step_ != 0);
  vouched_until_ = std::max(vouched_until_, last_word);
}

machine_time round_stop::fenced_at(const timers& timing) const {
  DDPRUN_ASSERT(first_acknowledged_ || !leader_acknowledged_);
  if (!first_acknowledged_) return std::max(ordered_at_, vouched_until_) + timing.orphan_limit;
  const duration limit = timing.isolation_limit;
  if (leader_acknowledged_) {
    return std::max(*leader_acknowledged_, vouched_until_) + with_margin(limit);
  }
  return std::max(*first_acknowledged_, vouched_until_) + with_margin(2 * limit);
}

}  // namespace ddprun::core
