// Tells which of a round's ranks have come to a place in the program, by way of the job store: a
// rank that has waited in vain needs this to say for whom.
//
// Each rank answers when it comes there. Nothing waits here: the roll is read when the wait itself,
// in whatever library, has failed.
//
// Thread rule: one thread, as store_client.
// Errors: a store that does not answer leaves a question open, and is no error of its own: the
// caller has a worse one to report.
#pragma once

#include "worker/deadline.hpp"
#include "worker/store_client.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::worker {

class roll_call {
 public:
  // `place` is the same on all ranks, and of one use: "nccl/3/join".
  roll_call(const store_client& store, std::string_view place, std::uint32_t rank,
            std::uint32_t world_size);

  // This rank is here. False: the store has not taken it.
  bool answer(const deadline& until);

  // A sentence's subject and verb: "ranks 2 and 5 to 7 have not come"; where many ask at once, all
  // but the first get the number alone, "3 of 8 ranks have not come", for a list of thousands sent
  // to thousands is too much for a store. Empty: all have come. None: the store does not tell.
  std::optional<std::string> missing(const deadline& until);

  // For a rank whose deadline has passed while it waited for others: it answers, gives those whose
  // deadlines pass in the same wait a moment to do so too, and asks. Some seconds at most.
  std::optional<std::string> who_is_late();

  // For the store, once all is lost but the reason.
  static constexpr std::chrono::seconds question_limit{5};

 private:
  store_client store_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
};

}  // namespace ddprun::worker
