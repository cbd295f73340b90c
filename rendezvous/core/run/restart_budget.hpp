// What an instance has been charged: failures of workers against --max-restarts, losses of nodes
// within an hour against --max-node-losses.
//
// Restarts that were used never become fewer. Where --restart-window refills the budget, those that
// were used until then are forgiven: they count against --max-restarts no longer.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>

namespace ddprun::core {

inline constexpr duration node_loss_window = std::chrono::hours(1);

class restart_budget {
 public:
  std::uint32_t restarts_used() const { return restarts_used_; }
  std::uint32_t restarts_forgiven() const { return std::min(forgiven_, restarts_used_); }
  std::uint32_t restarts_counted() const { return restarts_used_ - restarts_forgiven(); }
  std::uint32_t node_losses(time_point now) const;  // that still count

  bool is_spent(std::uint32_t restarts_max) const { return restarts_counted() >= restarts_max; }
  // False where it is spent: this one may not be restarted.
  bool charge_restart(std::uint32_t restarts_max);
  void refill() { forgiven_ = restarts_used_; }
  bool charge_node_loss(time_point now, std::uint32_t losses_max);

  // As a record says, or as somebody says who may know of more.
  void set_restarts_used(std::uint32_t recorded) { restarts_used_ = recorded; }
  void raise_restarts_used(std::uint32_t said);
  void set_restarts_forgiven(std::uint32_t recorded) { forgiven_ = recorded; }
  void raise_restarts_forgiven(std::uint32_t said) { forgiven_ = std::max(forgiven_, said); }

 private:
  std::uint32_t restarts_used_ = 0;
  std::uint32_t forgiven_ = 0;
  std::deque<time_point> node_losses_;  // oldest first
};

}  // namespace ddprun::core
