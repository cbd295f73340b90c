// What an instance has been charged: failures of workers against --max-restarts, losses of nodes
// within an hour against --max-node-losses.
//
// Thread rule: plain value.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <deque>

namespace ddprun::core {

inline constexpr duration node_loss_window = std::chrono::hours(1);

class restart_budget {
 public:
  std::uint32_t restarts_used() const { return restarts_used_; }
  std::uint32_t node_losses(time_point now) const;  // that still count

  // False where it is spent: this one may not be restarted.
  bool charge_restart(std::uint32_t restarts_max);
  bool charge_node_loss(time_point now, std::uint32_t losses_max);

  // As a record says, or as somebody says who may know of more.
  void set_restarts_used(std::uint32_t recorded) { restarts_used_ = recorded; }
  void raise_restarts_used(std::uint32_t said);

 private:
  std::uint32_t restarts_used_ = 0;
  std::deque<time_point> node_losses_;  // oldest first
};

}  // namespace ddprun::core
