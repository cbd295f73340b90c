#include "worker/snapshot/rank_exchange.hpp"

#include "rendezvous/base/time.hpp"
#include "worker/lost_ranks.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>

namespace ddprun::worker {
namespace {

// Keys, after the topic.
constexpr const char* reported = "/reported";    // all reports, in the order of arrival
constexpr const char* count = "/count";          // the number of reports
constexpr const char* complete = "/complete";    // exists once all ranks have reported
constexpr const char* announced = "/announced";  // rank 0's announcement

constexpr std::chrono::seconds store_limit{60};  // for a reply that depends on no other rank
// The interval at which a wait checks for cancel(). It grows with the ranks, as each check is a
// request.
constexpr std::chrono::milliseconds look_min{500}, look_max{10000}, look_of_a_rank{1};

// "rank length text" for each report.
std::string record(std::uint32_t rank, std::string_view text) {
  return std::to_string(rank) + " " + std::to_string(text.size()) + " " + std::string(text);
}

bool take_number(std::string_view& from, std::uint64_t& value) {
  const auto [rest, failure] = std::from_chars(from.data(), from.data() + from.size(), value);
  const auto used = static_cast<std::size_t>(rest - from.data());
  if (failure != std::errc{} || used == from.size() || from[used] != ' ') return false;
  from.remove_prefix(used + 1);
  return true;
}

std::vector<std::optional<std::string>> texts_in(std::string_view records,
                                                 std::uint32_t world_size) {
  std::vector<std::optional<std::string>> texts(world_size);
  while (!records.empty()) {
    std::uint64_t rank = 0;
    std::uint64_t length = 0;
    if (!take_number(records, rank) || !take_number(records, length)) break;
    if (rank >= world_size || length > records.size()) break;
    texts[rank] = std::string(records.substr(0, length));
    records.remove_prefix(length);
  }
  return texts;
}

}  // namespace

rank_exchange::rank_exchange(const store_client& store, std::string_view name, std::uint32_t rank,
                             std::uint32_t world_size, std::chrono::milliseconds apart)
    : store_(store.with_prefix(name)), rank_(rank), world_size_(world_size), apart_(apart) {}

error_code rank_exchange::keep(error_code error) {
  if (error) problem_ = store_->problem();
  return error;
}

// In several looks: the store's own problem would speak of the last one.
error_code rank_exchange::wait_for(const std::string& key, std::chrono::milliseconds length) {
  const duration look = std::clamp(look_of_a_rank * world_size_, look_min, look_max);
  const deadline until = length;
  for (;;) {
    const auto error = store_->wait(key, std::min<duration>(until.left(), look));
    if (error != errc::timed_out || !store_->is_connected()) return keep(error);
    if (!until.passed() && !*is_cancelled_) continue;
    problem_ =
        *is_cancelled_ ? "given up before the other ranks had answered" : still_waiting(length);
    return error;
  }
}

error_code rank_exchange::report(const std::string& topic, std::string_view text) {
  if (!store_) {
    alone_[topic + reported] = text;
    return {};
  }
  const deadline until = store_limit;
  if (auto error = store_->append(topic + reported, record(rank_, text), until)) return keep(error);
  const auto come = store_->add(topic + count, 1, until);
  if (!come) return keep(come.error());
  if (*come < static_cast<std::int64_t>(world_size_)) return {};
  return keep(store_->set(topic + complete, "", until));
}

void rank_exchange::name_missing(const std::string& topic) {
  const auto records = late_answer(*store_, topic + reported);
  if (!records) return;
  std::vector<bool> has_come;
  for (const auto& text : texts_in(*records, world_size_))
    has_come.push_back(text.has_value());
  const auto missing = no_word_from(has_come);
  if (!missing.empty()) problem_ = missing + ", " + problem_;
}

result<std::vector<std::string>> rank_exchange::reports(const std::string& topic) {
  if (!store_) return std::vector<std::string>{alone_[topic + reported]};
  if (auto error = wait_for(topic + complete, apart_)) {
    if (error == errc::timed_out && !*is_cancelled_) name_missing(topic);
    return error;
  }
  const auto records = store_->get(topic + reported, store_limit);
  if (!records) return keep(records.error());
  std::vector<std::string> all;
  for (auto& text : texts_in(*records, world_size_)) {
    if (!text) {
      // Do not use errc::damaged, which would blame the snapshot and skip it.
      problem_ = "the job store has garbled what the ranks have told of " + topic +
                 " (does another program write to it?); start the job again";
      return make_error_code(errc::malformed_message);
    }
    all.push_back(std::move(*text));
  }
  return all;
}

error_code rank_exchange::announce(const std::string& topic, std::string_view text) {
  if (store_) return keep(store_->set(topic + announced, text, store_limit));
  alone_[topic + announced] = text;
  return {};
}

result<std::string> rank_exchange::announcement(const std::string& topic) {
  if (!store_) return alone_[topic + announced];
  if (auto error = wait_for(topic + announced, 2 * apart_)) return error;
  auto text = store_->get(topic + announced, store_limit);
  if (!text) return keep(text.error());
  return text;
}

void rank_exchange::forget(const std::string& topic) {
  alone_.clear();
  if (!store_) return;
  for (const char* key : {reported, count, complete, announced}) {
    if (!store_->delete_key(topic + key, store_limit)) return;
  }
}

}  // namespace ddprun::worker
