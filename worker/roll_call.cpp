#include "worker/roll_call.hpp"

#include "rendezvous/base/rank_text.hpp"

#include <algorithm>
#include <charconv>
#include <thread>

namespace ddprun::worker {
namespace {

constexpr std::string_view present = "rank/";
constexpr std::string_view count = "count";
constexpr std::string_view asked = "asked";
// How far apart the ranks may be whose deadlines end in the same wait.
constexpr std::chrono::seconds grace{1};
constexpr std::int64_t lists_max = 8;  // callers after these get only the number

}  // namespace

roll_call::roll_call(const store_client& store, std::string_view place, std::uint32_t rank,
                     std::uint32_t world_size)
    : store_(store.with_prefix(place)), rank_(rank), world_size_(world_size) {}

bool roll_call::answer(const deadline& until) {
  return !store_.set(std::string(present) + std::to_string(rank_), "", until) &&
         store_.add(count, 1, until).has_value();
}

std::optional<std::string> roll_call::missing(const deadline& until) {
  const auto lists = store_.add(asked, 1, until);
  if (!lists) return std::nullopt;
  if (*lists > lists_max) {
    const auto come = store_.add(count, 0, until);
    if (!come) return std::nullopt;
    const std::int64_t absent = static_cast<std::int64_t>(world_size_) - *come;
    if (absent <= 0) return "";
    return std::to_string(absent) + " of " + std::to_string(world_size_) + " ranks have not come";
  }
  const auto keys = store_.with_prefix(present.substr(0, present.size() - 1)).list_keys(until);
  if (!keys) return std::nullopt;
  std::vector<bool> has_come(world_size_, false);
  for (const std::string& key : *keys) {
    std::uint32_t rank = world_size_;
    std::from_chars(key.data(), key.data() + key.size(), rank);
    if (rank < world_size_) has_come[rank] = true;
  }
  std::vector<std::uint32_t> absent;
  for (std::uint32_t rank = 0; rank < world_size_; ++rank) {
    if (!has_come[rank]) absent.push_back(rank);
  }
  if (absent.empty()) return "";
  return text_of_ranks(absent) + (absent.size() == 1 ? " has not come" : " have not come");
}

std::optional<std::string> roll_call::who_is_late() {
  if (!answer(question_limit)) return std::nullopt;
  std::this_thread::sleep_for(grace);
  return missing(question_limit);
}

}  // namespace ddprun::worker
