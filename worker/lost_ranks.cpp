#include "worker/lost_ranks.hpp"

#include "rendezvous/base/lost_peer.hpp"
#include "rendezvous/base/rank_text.hpp"

#include <cstdint>
#include <span>

namespace ddprun::worker {

std::string still_waiting(duration waited) {
  return for_want_of_peer("still waiting after " + ddprun::to_text(waited));
}

std::optional<std::string> late_answer(store_client& store, const std::string& key) {
  const auto is_there = store.check(std::span(&key, 1), late_answer_limit);
  if (!is_there) return std::nullopt;
  if (!*is_there) return "";
  const auto value = store.get(key, late_answer_limit);
  return value ? std::optional(*value) : std::nullopt;
}

std::string no_word_from(const std::vector<bool>& has_come) {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t rank = 0; rank < has_come.size(); ++rank) {
    if (!has_come[rank]) missing.push_back(rank);
  }
  return missing.empty() ? "" : "no word from " + text_of_ranks(missing);
}

}  // namespace ddprun::worker
