#include "launcher/evidence/collective_rules.hpp"

#include "rendezvous/base/rank_text.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

constexpr std::size_t calls_told_max = 3;

// Of one call; all that has to be the same on each rank.
using signature = std::tuple<std::string, std::string, std::uint64_t>;

signature signature_of(const collective& one) {
  constexpr std::array<std::string_view, 3> of_one_size = {"all_reduce", "broadcast", "reduce"};
  const bool has_one_size =
      std::find(of_one_size.begin(), of_one_size.end(), one.name) != of_one_size.end();
  return {one.name, has_one_size ? one.type : "", has_one_size ? one.elements : 0};
}

std::string words_of_call(const collective& one) {
  return one.name + (one.tensors.empty() ? "" : " of " + one.tensors);
}

// Group, how many of its name were before it, and number of the call.
using place = std::tuple<std::string, std::uint64_t, std::uint64_t>;

place place_of(const flight_record& record, const collective& call) {
  const auto group = record.groups.find(call.group);
  return {call.group, group == record.groups.end() ? 0 : group->second.earlier, call.sequence};
}

std::optional<collective_mismatch> mismatch_at(const std::vector<ranked_record>& ranks,
                                               const place& where) {
  std::map<signature, collective_mismatch::call> calls;
  std::set<signature> waited_in;
  collective_mismatch found;
  for (const ranked_record& one : ranks) {
    const auto& recent = one.record->recent;
    const auto call = std::find_if(recent.begin(), recent.end(), [&](const collective& each) {
      return !each.is_point_to_point && place_of(*one.record, each) == where;
    });
    if (call == recent.end()) continue;
    if (call->is_pending) waited_in.insert(signature_of(*call));
    auto& same = calls[signature_of(*call)];
    if (same.ranks.empty()) same.words = words_of_call(*call);
    same.ranks.push_back(one.rank);
    found.number = number_of(*one.record, *call);
  }
  // One that has ended may be of an earlier group with the same name.
  if (calls.size() < 2 || waited_in.size() < calls.size()) return std::nullopt;
  for (auto& [kind, call] : calls)
    found.calls.push_back(std::move(call));
  std::stable_sort(found.calls.begin(), found.calls.end(), [](const auto& one, const auto& other) {
    return std::pair(one.ranks.size(), other.ranks.front()) <
           std::pair(other.ranks.size(), one.ranks.front());
  });
  return found;
}

}  // namespace

std::optional<collective_mismatch> mismatch_of(const std::vector<ranked_record>& ranks) {
  std::set<place> places;
  for (const ranked_record& one : ranks) {
    for (const collective& call : one.record->recent) {
      if (is_waited_in(call)) places.insert(place_of(*one.record, call));
    }
  }
  for (const place& where : places) {
    if (auto found = mismatch_at(ranks, where)) return found;
  }
  return std::nullopt;
}

std::string sentence_of(const collective_mismatch& found) {
  std::string text = "ranks called different collectives as " + found.number + ": ";
  for (std::size_t index = 0; index < found.calls.size(); ++index) {
    if (index == calls_told_max) return text + ", and others";
    const collective_mismatch::call& call = found.calls[index];
    text += (index == 0 ? "" : ", ") + text_of_ranks(call.ranks) + " " + call.words;
  }
  return text;
}

}  // namespace ddprun::launcher::evidence
