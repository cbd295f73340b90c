// The ranks of a round tell rank 0 about a topic, and rank 0 tells all: through the job store, with
// three requests a rank, and one now and then while it waits, and none that grows with their number
// but the one answer that rank 0 reads.
//
// Topics are of one use until rank 0 forgets them. A world of one rank needs no store.
//
// Thread rule: one thread at a time, but for cancel(), which any may call. Errors: of the store;
// errc::malformed_message where the store has something else than the ranks have told;
// `problem()` is one line about the last one: for how long it has waited in all, and, where reports
// are missing, for which ranks.
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
  // `name` is that of the keys, the same on all ranks. `apart` is how far ranks may be apart: so
  // long rank 0 waits for all reports, and twice as long the others for what it makes of them.
  rank_exchange(const store_client& store, std::string_view name, std::uint32_t rank,
                std::uint32_t world_size, std::chrono::milliseconds apart);

  // This rank's word on it.
  error_code report(const std::string& topic, std::string_view text);
  // Rank 0: those of all ranks, by rank.
  result<std::vector<std::string>> reports(const std::string& topic);

  // Rank 0's word on it, and how the others hear it.
  error_code announce(const std::string& topic, std::string_view text);
  result<std::string> announcement(const std::string& topic);

  // Rank 0: nobody will ask for it any more.
  void forget(const std::string& topic);

  // What waits for others gives up soon, now and later: errc::timed_out.
  void cancel() { *is_cancelled_ = true; }

  const std::string& problem() const { return problem_; }

  // With this exchange's prefix; none in a world of one. It shares the connection: to be used while
  // the exchange is not.
  const std::optional<store_client>& store() const { return store_; }

 private:
  error_code wait_for(const std::string& key, std::chrono::milliseconds length);
  error_code keep(error_code error);
  void name_missing(const std::string& topic);

  std::optional<store_client> store_;
  std::uint32_t rank_ = 0;
  std::uint32_t world_size_ = 1;
  std::chrono::milliseconds apart_{};
  std::map<std::string, std::string> alone_;  // what the one rank of a world has told itself
  std::string problem_;
  std::shared_ptr<std::atomic<bool>> is_cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace ddprun::worker
