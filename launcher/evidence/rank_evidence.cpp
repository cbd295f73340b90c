#include "launcher/evidence/rank_evidence.hpp"

#include "rendezvous/base/rank_text.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

// More kinds of places than this are told as a number.
constexpr std::size_t groups_told_max = 4;
constexpr std::size_t ranks_named_max = 3;

struct group {
  std::string words;  // " stood in forward (train.py:88)"
  bool waits = false;
  std::vector<std::uint32_t> ranks;
};

std::pair<std::string, bool> words_of(const rank_evidence& one) {
  if (one.state == 'T' || one.state == 't') return {"was stopped (state T)", false};
  const standing where = standing_of(one.stack);
  if (!where.waits_in.empty()) {
    return {"waited in " + where.waits_in + (where.place.empty() ? "" : ", " + where.place), true};
  }
  if (!where.place.empty()) return {"stood in " + where.place, false};
  std::string text = "did not say where it stood (state ";
  text += one.state;
  if (!one.wait_channel.empty()) text += ", " + one.wait_channel;
  return {text + ")", false};
}

std::string subject_of(const group& one) {
  if (one.waits && one.ranks.size() > ranks_named_max)
    return std::to_string(one.ranks.size()) + " ranks";
  return text_of_ranks(one.ranks);
}

}  // namespace

bool stands_as_before(const rank_evidence& before, const rank_evidence& now) {
  const auto is_at_rest = [](char state) { return state == 'S' || state == 'R'; };
  const bool is_alike =
      before.state == now.state || (is_at_rest(before.state) && is_at_rest(now.state));
  if (before.pid != now.pid || !is_alike) return false;
  const standing where = standing_of(now.stack);
  if (!where.waits_in.empty()) return standing_of(before.stack) == where;
  return before.stack == now.stack;
}

std::string sentence_of(const node_evidence& seen) {
  std::vector<group> groups;
  bool is_any_known = false;
  for (const rank_evidence& one : seen.ranks) {
    if (one.state == '?' || one.state == 'Z') continue;
    is_any_known = is_any_known || !one.stack.empty();
    const auto [words, waits] = words_of(one);
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&words = words](const group& each) { return each.words == words; });
    if (found == groups.end()) found = groups.insert(found, {words, waits, {}});
    found->ranks.push_back(one.rank);
  }
  if (!is_any_known) return {};
  std::stable_sort(groups.begin(), groups.end(), [](const group& one, const group& other) {
    return std::pair(one.waits, one.ranks.size()) < std::pair(other.waits, other.ranks.size());
  });
  std::string text;
  bool is_contrast_said = false;
  for (std::size_t index = 0; index < groups.size(); ++index) {
    const group& each = groups[index];
    if (index == groups_told_max) {
      text += "; others stood elsewhere";
      break;
    }
    const bool is_contrast = each.waits && !is_contrast_said && index > 0;
    is_contrast_said = is_contrast_said || is_contrast;
    if (index > 0) text += is_contrast ? " while " : ", ";
    text += subject_of(each) + " " + each.words;
  }
  return text;
}

}  // namespace ddprun::launcher::evidence
