#include "worker/snapshot/opening.hpp"

#include "rendezvous/base/time.hpp"
#include "worker/lost_ranks.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::worker {
namespace {

constexpr std::chrono::milliseconds look{500};  // until a rank looks for a newer opening

std::string random_number() {
  std::random_device source;
  return std::to_string((std::uint64_t{source()} << 32) | source());
}

class handshake {
 public:
  handshake(store_client& store, const environment& here, std::string keys,
            std::chrono::milliseconds apart, std::string& problem)
      : store_(store),
        here_(here),
        keys_(std::move(keys)),
        apart_(apart),
        until_(apart),
        problem_(problem) {}

  result<std::string> lead() {
    const std::string mine = keys_ + "/" + random_number();
    if (auto error = store_.set(keys_ + "/newest", mine, until_)) return told(error);
    if (auto error = store_.wait(mine + "/complete", until_)) {
      told(error);
      if (error == errc::timed_out) name_missing(mine);
      return error;
    }
    const auto said = store_.get(mine + "/said", until_);
    if (!said) return told(said.error());
    if (auto error = store_.set(mine + "/heard", *said, until_)) return told(error);
    return mine;
  }

  result<std::string> follow() {
    const std::string word = std::to_string(here_.rank) + ":" + random_number();
    std::set<std::string> greeted;
    while (!until_.passed()) {
      if (auto error = store_.wait(keys_ + "/newest", until_)) {
        if (error == errc::timed_out && store_.is_connected()) break;
        return told(error);
      }
      const auto newest = store_.get(keys_ + "/newest", until_);
      if (!newest) return told(newest.error());
      if (greeted.insert(*newest).second) {
        if (auto error = greet(*newest, word)) return told(error);
      }
      const auto error = store_.wait(*newest + "/heard", std::min<duration>(look, until_.left()));
      if (error == errc::timed_out && store_.is_connected()) continue;
      if (error) return told(error);
      const auto heard = store_.get(*newest + "/heard", until_);
      if (!heard) return told(heard.error());
      if (has_word(*heard, word)) return *newest;
      std::this_thread::sleep_for(look / 10);  // of an earlier opening: wait for the new one
    }
    problem_ = "rank 0 has not said that all ranks have come to open the snapshots: " +
               still_waiting(apart_);
    return make_error_code(errc::timed_out);
  }

 private:
  error_code greet(const std::string& opening, const std::string& word) {
    if (auto error = store_.append(opening + "/said", word + " ", until_)) return error;
    const auto count = store_.add(opening + "/count", 1, until_);
    if (!count) return count.error();
    if (*count + 1 < static_cast<std::int64_t>(here_.world_size)) return {};
    return store_.set(opening + "/complete", "", until_);
  }
  static bool has_word(const std::string& heard, const std::string& word) {
    std::istringstream words(heard);
    for (std::string each; words >> each;) {
      if (each == word) return true;
    }
    return false;
  }
  error_code told(error_code error) {
    problem_ = "not all ranks have come to open the snapshots: " + store_.problem();
    return error;
  }

  void name_missing(const std::string& opening) {
    const auto said = late_answer(store_, opening + "/said");
    if (!said) return;
    std::vector<bool> has_come(here_.world_size, false);
    has_come[0] = true;
    std::istringstream words(*said);
    std::uint32_t rank = 0;
    for (std::string number; words >> rank && std::getline(words, number, ' ');) {
      if (rank < has_come.size()) has_come[rank] = true;
    }
    const auto missing = no_word_from(has_come);
    if (missing.empty()) return;
    problem_ =
        "not all ranks have come to open the snapshots: " + missing + ", " + still_waiting(apart_);
  }

  store_client& store_;
  const environment& here_;
  std::string keys_;
  std::chrono::milliseconds apart_;
  deadline until_;
  std::string& problem_;
};

}  // namespace

result<std::string> find_opening(store_client& store, const environment& here,
                                 const std::string& name, std::chrono::milliseconds apart,
                                 std::string& problem) {
  std::string keys = "ddprun/" + name + "/" + std::to_string(here.instance);
  if (here.instance == 0) {
    handshake ranks(store, here, std::move(keys), apart, problem);
    return here.rank == 0 ? ranks.lead() : ranks.follow();
  }
  keys += "/" + std::to_string(here.round);
  // Let the store count: its number is as old as the messages in it.
  const auto count = store.add(keys + "/opened/" + std::to_string(here.rank), 1, apart);
  if (!count) {
    problem = store.problem();
    return count.error();
  }
  return keys + "/" + std::to_string(*count);
}

}  // namespace ddprun::worker
