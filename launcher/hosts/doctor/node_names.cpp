#include "launcher/hosts/doctor/node_names.hpp"

#include <algorithm>

namespace ddprun::launcher::doctor {
namespace {

constexpr std::size_t shown_max = 4;

}  // namespace

std::vector<std::string> node_names(const std::vector<node_card>& cards) {
  std::vector<std::string> names;
  for (const node_card& card : cards) {
    const auto same = std::count_if(cards.begin(), cards.end(),
                                    [&](const node_card& each) { return each.name == card.name; });
    names.push_back(same == 1 ? card.name : card.name + " (" + card.address + ")");
  }
  return names;
}

std::string list_of(const std::set<std::uint32_t>& nodes, const std::vector<std::string>& names) {
  if (nodes.size() == names.size() && nodes.size() > 2)
    return "all " + std::to_string(nodes.size()) + " nodes";
  std::string text;
  std::size_t shown = 0;
  for (const std::uint32_t node : nodes) {
    if (shown == shown_max && nodes.size() > shown_max + 1)
      return text + " and " + std::to_string(nodes.size() - shown) + " more";
    const bool is_last = ++shown == nodes.size();
    text += (text.empty() ? "" : is_last ? " and " : ", ") + names[node];
  }
  return text;
}

}  // namespace ddprun::launcher::doctor
