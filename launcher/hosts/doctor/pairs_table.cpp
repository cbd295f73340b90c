#include "launcher/hosts/doctor/pairs_table.hpp"

#include "launcher/hosts/doctor/cluster_json.hpp"
#include "launcher/hosts/doctor/node_names.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace ddprun::launcher::doctor {
namespace {

constexpr std::size_t column_width = 11;

const peer_seen* pair_of(const cluster_facts& facts, std::uint32_t from, std::uint32_t to) {
  if (from >= facts.seen.size() || !facts.seen[from]) return nullptr;
  const auto found = facts.seen[from]->peers.find(to);
  return found == facts.seen[from]->peers.end() ? nullptr : &found->second;
}

std::string round_trip_cell(const cluster_facts& facts, std::uint32_t from, std::uint32_t to) {
  const peer_seen* const pair = pair_of(facts, from, to);
  if (pair == nullptr) return from == to ? "-" : "?";
  for (const path_seen& path : pair->paths) {
    if (path.address == facts.cards[to].address && path.what != path_answer::ok)
      return name_of(path.what);
  }
  if (!pair->round_trip) return "?";
  return fmt::format("{:.2f} ms", static_cast<double>(*pair->round_trip) / 1000);
}

std::string speed_cell(const cluster_facts& facts, std::uint32_t from, std::uint32_t to) {
  const peer_seen* const pair = pair_of(facts, from, to);
  if (pair == nullptr || !pair->mib_per_second) return from == to ? "-" : "?";
  return fmt::format("{:.0f}", *pair->mib_per_second);
}

template <typename Cell>
std::string table_of(const std::string& title, const cluster_facts& facts, Cell cell) {
  const std::vector<std::string> names = node_names(facts.cards);
  std::size_t width = title.size();
  for (const std::string& name : names)
    width = std::max(width, name.size() + 4);
  std::string text = fmt::format("{:<{}}", title, width);
  for (std::uint32_t to = 0; to < names.size(); ++to)
    text += fmt::format("{:>{}}", "to " + std::to_string(to), column_width);
  text += "\n";
  for (std::uint32_t from = 0; from < names.size(); ++from) {
    text += fmt::format("{:<{}}", fmt::format("{:>2}  {}", from, names[from]), width);
    for (std::uint32_t to = 0; to < names.size(); ++to)
      text += fmt::format("{:>{}}", cell(facts, from, to), column_width);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string pairs_table(const cluster_facts& facts) {
  if (facts.cards.size() < 2 || facts.cards.size() > table_nodes_max) return {};
  std::string text = table_of("round trips", facts, round_trip_cell);
  const bool has_speeds = std::any_of(facts.seen.begin(), facts.seen.end(), [](const auto& node) {
    return node && std::any_of(node->peers.begin(), node->peers.end(), [](const auto& pair) {
             return pair.second.mib_per_second.has_value();
           });
  });
  if (has_speeds) text += "\n" + table_of("MiB/s", facts, speed_cell);
  return text;
}

}  // namespace ddprun::launcher::doctor
