#include "launcher/evidence/hang_rules.hpp"

#include <algorithm>

namespace ddprun::launcher::evidence {
namespace {

constexpr int learnt_factor = 5;

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
    if (state == 't' || state == '?' || state == 'Z') return false;
  }
  return true;
}

bool do_spin_in_vain(const std::set<pid_t>& spinning, const std::string& counts,
                     const node_evidence& now) {
  if (counts.empty() || counts != now.nccl_counts) return false;
  return std::all_of(now.ranks.begin(), now.ranks.end(), [&](const rank_evidence& one) {
    return !spinning.contains(one.pid) || waits_in_call(one);
  });
}

std::optional<hang_verdict> judge_hang(const node_evidence& first, const node_evidence& second,
                                       const stall_scope& scope) {
  if (!have_stood(first, second)) return std::nullopt;
  const std::vector<stalled_ranks> ranks = stalled_ranks_of(second);
  const auto rank = rank_that_hangs(ranks, scope);
  if (!rank) return std::nullopt;
  hang_verdict found{*rank, ddprun::sentence_of(ranks)};
  if (const std::string more = mismatch_sentence(second); !more.empty())
    found.words += (found.words.empty() ? "" : "; ") + more;
  return found;
}

}  // namespace ddprun::launcher::evidence
