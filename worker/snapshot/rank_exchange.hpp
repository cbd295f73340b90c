// The ranks of a round report to rank 0 on a topic, and rank 0 announces a result to all, through
// the job store. Each rank makes three requests, and one more at intervals while it waits; only the
// reply that rank 0 reads grows with the number of ranks.
//
// Topics are used once; rank 0 forgets them afterwards. A world of one rank needs no store.
//
// Thread rule: one thread at a time, except that any thread may call cancel(). Errors: the store's;
// errc::malformed_message if the store returns something else than the ranks have reported.
// `problem()` describes the last error in one line: how long it has waited in all, and for which
// ranks if reports are missing.
#pragma once

#include "worker/deadline.hpp"
#include "worker/store_client.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::worker {

class rank_exchange {
 public:
  // A world of one.
  rank_exchange() = default;
  // `name` is the prefix of the keys, the same on all ranks. `apart` is how far apart in time the
  // ranks may be: rank 0 waits that long for all reports, and the others twice as long for its
  // announcement.
  rank_exchange(const store_client& store, std::string_view name, std::uint32_t rank,
                std::uint32_t world_size, std::chrono::milliseconds apart);

  // Sends this rank's report on the topic.
  error_code report(const std::string& topic, std::string_view text);
  // Rank 0: waits for the reports of all ranks, ordered by rank.
  result<std::vector<std::string>> reports(const std::string& topic);

  // Rank 0 announces its result on the topic, and the others wait for it.
  error_code announce(const std::string& topic, std::string_view text);
  result<std::string> announcement(const std::string& topic);

  // Rank 0: deletes the topic, which nobody may ask for any more.
  void forget(const std::string& topic);

  // Makes waits for other ranks fail soon with errc::timed_out, current and later ones.
  void cancel() { *is_cancelled_ = true; }

  const std::string& problem() const { return problem_; }

  // The store with this exchange's prefix; none in a world of one. It shares the connection, so it
  // must not be used at the same time as the exchange.
  const std::optional<store_client>& store() const { return store_; }

 private:
  error_code wait_for(const std::string& key, std::chrono::milliseconds length);
  error_code keep(error_code error);
  void name_missing(const std::string& topic);

  std::optional<store_client> store_;
  std::uint32_t rank_ = 0;
  std::uint32_t world_size_ = 1;
  std::chrono::milliseconds apart_{};
  std::map<std::string, std::string> alone_;  // the reports and announcements of the only rank
  std::string problem_;
  std::shared_ptr<std::atomic<bool>> is_cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace ddprun::worker
