#include "rendezvous/core/run/older_workers.hpp"

#include <algorithm>

namespace ddprun::core {

bool older_workers::add_ending(std::uint64_t order, machine_time now) {
  return ending_.try_emplace(order, now).second;
}

bool older_workers::drop_ending(std::uint64_t order) {
  return ending_.erase(order) != 0;
}

void older_workers::raise_lost_until(time_point until) {
  lost_until_ = std::max(lost_until_, until);
}

}  // namespace ddprun::core
