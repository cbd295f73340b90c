#include "launcher/evidence/hang_rules.hpp"

#include <algorithm>

namespace ddprun::launcher::evidence {
namespace {

constexpr int learnt_factor = 5;

bool is_stopped(const rank_evidence& one) {
  return one.state == 'T';
}

bool waits(const rank_evidence& one) {
  return !standing_of(one.stack).waits_in.empty();
}

bool are_alike(const rank_evidence& one, const rank_evidence& other) {
  return standing_of(one.stack) == standing_of(other.stack) && one.state == other.state;
}

// The first of the fewest that stand alike.
std::uint32_t odd_one(const std::vector<rank_evidence>& ranks) {
  const auto alike = [&ranks](const rank_evidence& one) {
    return std::count_if(ranks.begin(), ranks.end(),
                         [&one](const rank_evidence& other) { return are_alike(one, other); });
  };
  return std::min_element(ranks.begin(), ranks.end(),
                          [&alike](const rank_evidence& one, const rank_evidence& other) {
                            return alike(one) < alike(other);
                          })
      ->rank;
}

}  // namespace

void stillness::see(std::uint32_t rank, bool has_moved, time_point now) {
  const auto [found, is_new] = moved_.try_emplace(rank, now);
  if (is_new || !has_moved) return;
  longest_pause_ = std::max(longest_pause_, now - found->second);
  found->second = now;
}

duration stillness::still_for(std::uint32_t rank, time_point now) const {
  const auto found = moved_.find(rank);
  return found == moved_.end() ? duration::zero() : now - found->second;
}

duration stillness::all_still_for(const std::vector<std::uint32_t>& ranks, time_point now) const {
  if (ranks.empty()) return duration::zero();
  duration least = duration::max();
  for (const std::uint32_t rank : ranks)
    least = std::min(least, still_for(rank, now));
  return least;
}

duration stillness::limit(const std::optional<duration>& set) const {
  if (set) return *set;
  return std::max<duration>(learnt_limit_min, learnt_factor * longest_pause_);
}

bool have_stood(const node_evidence& first, const node_evidence& second) {
  const auto& ranks = second.ranks;
  if (ranks.empty() || first.ranks.size() != ranks.size()) return false;
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    const char state = ranks[index].state;
    if (!stands_as_before(first.ranks[index], ranks[index])) return false;
    if (state == 't' || state == '?' || state == 'Z' || state == 'D') return false;
  }
  return true;
}

std::optional<hang_verdict> judge_hang(const node_evidence& first, const node_evidence& second,
                                       const hang_scope& scope) {
  const auto& ranks = second.ranks;
  if (!have_stood(first, second)) return std::nullopt;
  hang_verdict found;
  found.words = sentence_of(second);
  const auto stopped = std::find_if(ranks.begin(), ranks.end(), is_stopped);
  if (stopped != ranks.end()) {
    found.rank = stopped->rank;
    if (found.words.empty()) found.words = "it was stopped (state T)";
    return found;
  }
  const auto elsewhere = std::find_if_not(ranks.begin(), ranks.end(), waits);
  const bool do_some_wait = std::any_of(ranks.begin(), ranks.end(), waits);
  if (elsewhere != ranks.end() && do_some_wait) {
    found.rank = elsewhere->rank;
    return found;
  }
  const bool is_any_known = std::any_of(
      ranks.begin(), ranks.end(), [](const rank_evidence& one) { return !one.stack.empty(); });
  if (!is_any_known || !scope.sees_all || (scope.needs_waiting && !do_some_wait))
    return std::nullopt;
  found.rank = odd_one(ranks);
  return found;
}

}  // namespace ddprun::launcher::evidence
