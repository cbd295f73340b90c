#include "rendezvous/core/run/restart_budget.hpp"

#include <algorithm>

namespace ddprun::core {

std::uint32_t restart_budget::node_losses(time_point now) const {
  return static_cast<std::uint32_t>(
      std::count_if(node_losses_.begin(), node_losses_.end(),
                    [now](time_point moment) { return now - moment < node_loss_window; }));
}

bool restart_budget::charge_restart(std::uint32_t restarts_max) {
  if (is_spent(restarts_max)) return false;
  ++restarts_used_;
  return true;
}

bool restart_budget::charge_node_loss(time_point now, std::uint32_t losses_max) {
  while (!node_losses_.empty() && now - node_losses_.front() >= node_loss_window)
    node_losses_.pop_front();
  node_losses_.push_back(now);
  return node_losses_.size() <= losses_max;
}

void restart_budget::raise_restarts_used(std::uint32_t said) {
  restarts_used_ = std::max(restarts_used_, said);
}

}  // namespace ddprun::core
