#include "launcher/hosts/doctor/pair_schedule.hpp"

namespace ddprun::launcher::doctor {

std::vector<std::uint32_t> order_of_others(std::uint32_t own, std::uint32_t nodes) {
  std::vector<std::uint32_t> order;
  const bool are_all_tried = nodes <= all_pairs_max;
  for (std::uint32_t distance = 1; distance < nodes;) {
    order.push_back((own + distance) % nodes);
    distance = are_all_tried ? distance + 1 : distance * 2;
  }
  return order;
}

namespace {

std::uint32_t steps_of_all(std::uint32_t nodes) {
  if (nodes < 2) return 0;
  return nodes % 2 == 0 ? nodes - 1 : nodes;
}

}  // namespace

std::uint32_t tournament_steps(std::uint32_t nodes) {
  if (nodes <= all_pairs_max) return steps_of_all(nodes);
  return static_cast<std::uint32_t>(order_of_others(0, nodes).size());
}

// The circle method: two nodes meet in the step that equals the sum of their indexes, modulo the
// number of steps; the last of an even number of nodes meets the one that would meet itself.
std::optional<std::uint32_t> tournament_partner(std::uint32_t own, std::uint32_t step,
                                                std::uint32_t nodes) {
  const std::uint32_t steps = steps_of_all(nodes);
  if (steps == 0) return {};
  const bool is_even = nodes % 2 == 0;
  if (is_even && own == nodes - 1) {
    for (std::uint32_t other = 0; other < steps; ++other) {
      if (2 * other % steps == step % steps) return other;
    }
  }
  const std::uint32_t partner = (step % steps + steps - own) % steps;
  if (partner != own) return partner;
  if (is_even) return nodes - 1;
  return {};
}

}  // namespace ddprun::launcher::doctor
