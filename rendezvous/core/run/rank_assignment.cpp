#include "rendezvous/core/run/rank_assignment.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace ddprun::core {
namespace {

bool is_digit(char character) {
  return character >= '0' && character <= '9';
}

// Takes a run of digits from the front, without its leading zeros.
std::string_view take_number(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length]))
    ++length;
  std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  while (digits.size() > 1 && digits.front() == '0')
    digits.remove_prefix(1);
  return digits;
}

// Survivors by their group rank; joiners by hint, host and join order.
bool ranks_before(const rank_candidate& left, const rank_candidate& right) {
  if (left.last_group_rank.has_value() != right.last_group_rank.has_value())
    return left.last_group_rank.has_value();
  if (left.last_group_rank && *left.last_group_rank != *right.last_group_rank) {
    return *left.last_group_rank < *right.last_group_rank;
  }
  constexpr auto no_hint = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t left_hint = left.node_rank ? *left.node_rank : no_hint;
  const std::uint64_t right_hint = right.node_rank ? *right.node_rank : no_hint;
  if (left_hint != right_hint) return left_hint < right_hint;
  if (left.host != right.host) return natural_less(left.host, right.host);
  return left.join_order < right.join_order;
}

// If all nodes have one role, which is nearly always so, no ranks within roles are given.
void rank_within_roles(const std::vector<rank_candidate>& candidates,
                       std::vector<assigned_ranks>& ranks_of_all) {
  std::map<std::string_view, std::uint32_t> counts;
  for (const assigned_ranks& ranks : ranks_of_all) {
    const rank_candidate& candidate = candidates[ranks.candidate];
    counts[candidate.role] += candidate.worker_count;
  }
  if (counts.size() <= 1) return;
  std::map<std::string_view, std::uint32_t> placed;
  for (assigned_ranks& ranks : ranks_of_all) {
    const rank_candidate& candidate = candidates[ranks.candidate];
    std::uint32_t& rank_first = placed[candidate.role];
    ranks.in_role = {rank_first, counts[candidate.role]};
    rank_first += candidate.worker_count;
  }
}

}  // namespace

bool natural_less(std::string_view left, std::string_view right) {
  const std::string_view whole_left = left;
  const std::string_view whole_right = right;
  while (!left.empty() && !right.empty()) {
    if (is_digit(left.front()) && is_digit(right.front())) {
      const std::string_view left_number = take_number(left);
      const std::string_view right_number = take_number(right);
      if (left_number.size() != right_number.size()) {
        return left_number.size() < right_number.size();
      }
      if (left_number != right_number) return left_number < right_number;
    } else {
      if (left.front() != right.front()) {
        return static_cast<unsigned char>(left.front()) < static_cast<unsigned char>(right.front());
      }
      left.remove_prefix(1);
      right.remove_prefix(1);
    }
  }
  if (left.empty() != right.empty()) return left.empty();
  return whole_left < whole_right;
}

rank_assignment assign_ranks(const std::vector<rank_candidate>& candidates,
                             std::uint32_t nodes_max) {
  std::vector<std::size_t> chosen(candidates.size());
  for (std::size_t index = 0; index < chosen.size(); ++index)
    chosen[index] = index;
  std::sort(chosen.begin(), chosen.end(), [&](std::size_t left, std::size_t right) {
    return ranks_before(candidates[left], candidates[right]);
  });
  if (chosen.size() > nodes_max) chosen.resize(nodes_max);

  const auto first_joiner = std::find_if(chosen.begin(), chosen.end(), [&](std::size_t index) {
    return !candidates[index].last_group_rank.has_value();
  });
  std::vector<std::size_t> order;  // by group rank, closed up
  order.reserve(chosen.size());
  auto survivor = chosen.begin();
  auto joiner = first_joiner;
  for (std::uint64_t group_rank = 0; order.size() < chosen.size(); ++group_rank) {
    // A survivor keeps its own group rank; the first one moves down to group rank 0 if that is
    // free.
    const bool survivor_stands_here =
        survivor != first_joiner &&
        (*candidates[*survivor].last_group_rank <= group_rank || group_rank == 0);
    if (survivor_stands_here) {
      order.push_back(*survivor++);
    } else if (joiner != chosen.end()) {
      order.push_back(*joiner++);
    } else {
      order.insert(order.end(), survivor, first_joiner);
      survivor = first_joiner;
    }
  }

  rank_assignment result;
  result.by_group_rank.reserve(order.size());
  for (const std::size_t index : order) {
    result.by_group_rank.push_back({index, result.world_size, std::nullopt});
    result.world_size += candidates[index].worker_count;
  }
  rank_within_roles(candidates, result.by_group_rank);
  return result;
}

}  // namespace ddprun::core
