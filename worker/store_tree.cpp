#include "worker/store_tree.hpp"

#include "rendezvous/base/rank_text.hpp"
#include "rendezvous/base/time.hpp"
#include "worker/lost_ranks.hpp"

#include <algorithm>
#include <chrono>

namespace ddprun::worker {
namespace {

constexpr std::uint32_t below_max = 16;
constexpr const char* over_key = "over";  // the reason of a rank that has given up
// The interval at which a wait checks whether a rank has given up.
constexpr std::chrono::milliseconds look_min{1000}, look_max{10000}, look_of_a_rank{1};

}  // namespace

store_tree::store_tree(const store_client& store, std::string_view place, std::uint32_t rank,
                       std::uint32_t world_size)
    : store_(store.with_prefix(place)), rank_(rank), world_size_(world_size) {}

std::string store_tree::up(std::uint32_t rank, std::uint64_t turn) const {
  return "up/" + std::to_string(turn) + "/" + std::to_string(rank);
}

std::string store_tree::down(std::uint64_t turn) const {
  return "down/" + std::to_string(turn);
}

error_code store_tree::keep(error_code error) {
  if (error) problem_ = store_.problem();
  return error;
}

// In several looks: the store's own problem would speak of the last one.
error_code store_tree::wait_for(const std::vector<std::string>& keys, const deadline& until) {
  const time_point start = std::chrono::steady_clock::now();
  const duration look =
      std::clamp<std::chrono::milliseconds>(look_of_a_rank * world_size_, look_min, look_max);
  for (;;) {
    const auto error = store_.wait(keys, std::min<duration>(until.left(), look));
    if (error != errc::timed_out || !store_.is_connected()) return keep(error);
    if (until.passed()) {
      problem_ = still_waiting(std::chrono::steady_clock::now() - start);
      return error;
    }
    // Use the turn's deadline, so that a store that is slow for a while (PyTorch's may be resolving
    // clients' names) does not end the turn.
    const std::string over = over_key;
    const auto is_over = store_.check(std::span(&over, 1), until);
    if (!is_over) return keep(is_over.error());
    if (*is_over) {
      const auto why = store_.get(over, until);
      if (!why) return keep(why.error());
      problem_ = *why;
      return errc::connection_closed;
    }
  }
}

void store_tree::name_missing(const std::vector<std::string>& keys) {
  std::vector<std::uint32_t> missing;
  for (std::size_t at = 0; at < keys.size(); ++at) {
    const auto is_there = store_.check(std::span(&keys[at], 1), late_answer_limit);
    if (!is_there) return;
    if (!*is_there) missing.push_back(rank_ * below_max + 1 + static_cast<std::uint32_t>(at));
  }
  if (missing.empty()) return;
  problem_ = "no word from " + text_of_ranks(missing) + ", or from those that tell it, " + problem_;
}

result<std::string> store_tree::join(std::string own, const joiner& with, const deadline& until) {
  const std::uint64_t turn = ++turn_;
  std::vector<std::string> below;
  const std::uint64_t first = std::uint64_t{rank_} * below_max + 1;
  for (std::uint64_t each = first; each < std::min<std::uint64_t>(first + below_max, world_size_);
       ++each) {
    below.push_back(up(static_cast<std::uint32_t>(each), turn));
  }
  if (!below.empty()) {
    if (const auto error = wait_for(below, until)) {
      if (error == errc::timed_out) name_missing(below);
      return error;
    }
    const auto said = store_.multi_get(below, until);
    if (!said) return keep(said.error());
    for (const std::string& each : *said)
      own = with(own, each);
  }
  const std::string mine = rank_ == 0 ? down(turn) : up(rank_, turn);
  if (const auto error = store_.set(mine, own, until)) return keep(error);
  if (rank_ != 0) {
    if (const auto error = wait_for({down(turn)}, until)) return error;
    auto answer = store_.get(down(turn), until);
    if (!answer) return keep(answer.error());
    own = std::move(*answer);
  }
  // All ranks have come to this turn, so all have read the texts of the previous one.
  if (turn > 1) (void)store_.delete_key(rank_ == 0 ? down(turn - 1) : up(rank_, turn - 1), until);
  return own;
}

void store_tree::give_up(std::string_view why, const deadline& until) {
  (void)store_.compare_set(over_key, "", why, until);
}

}  // namespace ddprun::worker
