// Finds out which of a round's ranks have reached a point in the program, by means of the job
// store, so that a rank whose wait has timed out can say whom it waited for.
//
// Each rank answers when it gets there. Nothing waits here: the roll is read after the actual wait,
// in whatever library, has failed.
//
// Thread rule: one thread at a time, as for store_client.
// Errors: if the store does not answer, the result is empty. That is no error of its own, because
// the caller has a more serious one to report.
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
  // `place` is the same on all ranks and used only once: "nccl/3/join".
  roll_call(const store_client& store, std::string_view place, std::uint32_t rank,
            std::uint32_t world_size);

  // Records that this rank is here. False if the store did not confirm it.
  bool answer(const deadline& until);

  // The subject and verb of a sentence: "ranks 2 and 5 to 7 have not come". If many ranks ask, only
  // the first few get the list and the others the number, "3 of 8 ranks have not come", because a
  // list of thousands sent to thousands would overload the store. Empty if all have come; none if
  // the store does not answer.
  std::optional<std::string> missing(const deadline& until);

  // For a rank that has timed out while it waited for others: it answers, gives ranks that time out
  // in the same wait a moment to answer too, and asks. This takes a few seconds at most.
  std::optional<std::string> who_is_late();

  // The time limit for each question, asked after everything but the diagnosis has failed.
  static constexpr std::chrono::seconds question_limit{5};

 private:
  store_client store_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
};

}  // namespace ddprun::worker
