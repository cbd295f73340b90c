#include "rendezvous/base/rank_text.hpp"

#include <cstddef>

namespace ddprun {
namespace {

constexpr std::size_t pieces_max = 10;

struct piece {
  std::string text;
  std::size_t count;  // of ranks
};

// Groups more than two consecutive ranks as "4 to 7".
std::vector<piece> pieces_of(const std::vector<std::uint32_t>& ranks) {
  std::vector<piece> found;
  for (std::size_t at = 0; at < ranks.size();) {
    std::size_t end = at + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
      ++end;
    const bool is_stretch = end - at > 2;
    if (!is_stretch) end = at + 1;
    const std::string first = std::to_string(ranks[at]);
    found.push_back(
        {is_stretch ? first + " to " + std::to_string(ranks[end - 1]) : first, end - at});
    at = end;
  }
  return found;
}

}  // namespace

std::string text_of_ranks(const std::vector<std::uint32_t>& ranks) {
  std::vector<piece> all = pieces_of(ranks);
  if (all.size() > pieces_max) {
    std::size_t left_out = 0;
    while (all.size() > pieces_max) {
      left_out += all.back().count;
      all.pop_back();
    }
    all.push_back({std::to_string(left_out) + " more", left_out});
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t index = 0; index < all.size(); ++index) {
    const bool is_last = index + 1 == all.size();
    text += (index == 0 ? "" : is_last ? " and " : ", ") + all[index].text;
  }
  return text;
}

}  // namespace ddprun
