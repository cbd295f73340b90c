#include "rendezvous/core/messages/stall.hpp"

#include "rendezvous/base/rank_text.hpp"
#include "rendezvous/base/utf8.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace ddprun {
namespace {

// Further kinds of places are only counted.
constexpr std::size_t groups_told_max = 4;
constexpr std::size_t ranks_named_max = 3;

struct alike_ranks {
  std::string words;
  bool wait = false;
  std::vector<std::uint32_t> ranks;
};

std::size_t count_of(const stalled_ranks& one) {
  return std::size_t{one.last} - one.first + 1;
}

bool is_known(const stalled_ranks& one) {
  return one.kind != stall_kind::unseen;
}

std::string subject_of(const alike_ranks& one) {
  if (one.wait && one.ranks.size() > ranks_named_max)
    return std::to_string(one.ranks.size()) + " ranks";
  return text_of_ranks(one.ranks);
}

std::vector<alike_ranks> groups_of(const std::vector<stalled_ranks>& ranks) {
  std::vector<alike_ranks> groups;
  std::map<std::string_view, std::size_t> known;
  for (const stalled_ranks& one : ranks) {
    const auto [found, is_new] = known.try_emplace(one.words, groups.size());
    if (is_new) groups.push_back({one.words, one.kind == stall_kind::waits, {}});
    auto& of = groups[found->second].ranks;
    for (std::size_t index = 0; index < count_of(one); ++index)
      of.push_back(one.first + static_cast<std::uint32_t>(index));
  }
  for (alike_ranks& one : groups)
    std::sort(one.ranks.begin(), one.ranks.end());
  // The odd one out is what the reader looks for: small groups come first, and those that wait
  // last.
  std::stable_sort(groups.begin(), groups.end(), [](const auto& one, const auto& other) {
    return std::pair(one.wait, one.ranks.size()) < std::pair(other.wait, other.ranks.size());
  });
  return groups;
}

// The first rank of the smallest group that stands alike.
std::uint32_t odd_one(const std::vector<stalled_ranks>& ranks) {
  std::map<std::string_view, std::size_t> alike;
  for (const stalled_ranks& one : ranks)
    alike[one.words] += count_of(one);
  return std::min_element(ranks.begin(), ranks.end(),
                          [&alike](const stalled_ranks& one, const stalled_ranks& other) {
                            return std::pair(alike[one.words], one.first) <
                                   std::pair(alike[other.words], other.first);
                          })
      ->first;
}

}  // namespace

std::string_view to_string(stall_kind value) {
  switch (value) {
    case stall_kind::unseen:
      return "unseen";
    case stall_kind::stopped:
      return "stopped";
    case stall_kind::elsewhere:
      return "elsewhere";
    case stall_kind::waits:
      return "waits";
  }
  return "unseen";
}

std::vector<stalled_ranks> in_short(std::vector<stalled_ranks> ranks) {
  std::vector<stalled_ranks> all;
  for (stalled_ranks& one : ranks) {
    one.words = std::string(first_of(one.words, stall_words_bytes_max));
    const bool continues = !all.empty() && all.back().last + 1 == one.first &&
                           all.back().kind == one.kind && all.back().words == one.words;
    if (continues) {
      all.back().last = one.last;
    } else {
      all.push_back(std::move(one));
    }
  }
  // If there are too many places, those that decide are kept (rank_that_hangs): ranks that wait
  // come last.
  std::stable_sort(all.begin(), all.end(), [](const stalled_ranks& one, const auto& other) {
    return one.kind < other.kind;
  });
  if (all.size() > stalled_ranks_max) all.resize(stalled_ranks_max);
  return all;
}

std::vector<stalled_ranks> within(const std::vector<stalled_ranks>& ranks, std::uint32_t first,
                                  std::uint32_t count) {
  std::vector<stalled_ranks> found;
  for (stalled_ranks one : ranks) {
    // With inclusive ends a range up to the highest number does not overflow.
    if (count == 0 || one.last < first || one.first > first + (count - 1)) continue;
    one.first = std::max(one.first, first);
    one.last = std::min(one.last, first + (count - 1));
    if (one.first <= one.last) found.push_back(std::move(one));
  }
  return found;
}

std::string sentence_of(const std::vector<stalled_ranks>& ranks) {
  if (std::none_of(ranks.begin(), ranks.end(), is_known)) return {};
  const std::vector<alike_ranks> groups = groups_of(ranks);
  std::string text;
  bool is_contrast_said = false;
  for (std::size_t index = 0; index < groups.size(); ++index) {
    const alike_ranks& each = groups[index];
    if (index == groups_told_max) {
      text += "; others stood elsewhere";
      break;
    }
    const bool is_contrast = each.wait && !is_contrast_said && index > 0;
    is_contrast_said = is_contrast_said || is_contrast;
    if (index > 0) text += is_contrast ? " while " : ", ";
    text += subject_of(each) + " " + each.words;
  }
  return text;
}

std::optional<std::uint32_t> rank_that_hangs(const std::vector<stalled_ranks>& ranks,
                                             const stall_scope& scope) {
  const auto first_of_kind = [&ranks](stall_kind kind) {
    std::optional<std::uint32_t> found;
    for (const stalled_ranks& one : ranks) {
      if (one.kind == kind) found = std::min(found.value_or(one.first), one.first);
    }
    return found;
  };
  // A stopped rank cannot move, whatever the others do. But a rank that is not seen may be the one
  // that all others wait for.
  if (const auto stopped = first_of_kind(stall_kind::stopped)) return stopped;
  if (ranks.empty() || first_of_kind(stall_kind::unseen)) return std::nullopt;
  const auto elsewhere = first_of_kind(stall_kind::elsewhere);
  const bool do_some_wait = first_of_kind(stall_kind::waits).has_value();
  if (elsewhere && do_some_wait) return elsewhere;
  // The odd one out hangs only if all ranks are seen; otherwise the one that they wait for may be
  // on another node.
  if (!scope.sees_all || (scope.needs_waiting && !do_some_wait)) return std::nullopt;
  return odd_one(ranks);
}

}  // namespace ddprun
