// A store tree puts together what the ranks have to say besides their tensors: a stop that one of
// them has heard of, that all have come to a place, some bytes of one. It goes over the job store,
// so that ranks need no connection to each other.
//
// Each rank waits for those below it, adds its own, and leaves that for the one above it; what rank
// 0 comes to in the end is the answer of all. With 16 below each, 1,000 ranks are three levels. It
// costs each rank three short requests to the store, and those with others below them one more, so
// that the store's rate is the limit where there are many: ask seldom, and not in each step.
//
// Every turn is over by its deadline, whoever has died. A rank that knows of a dead one can say so
// with give_up(): the others hear it within a second, or a millisecond a rank, 10 s at most.
//
// Thread rule: one thread at a time, as store_client, whose connection must be this tree's own.
// Errors: timed_out: not all have come; problem() says which of those below this rank, if it is
// because of them. connection_closed: a rank has given up, or the store is gone. After one the
// tree is of no more use.
#pragma once

#include "worker/deadline.hpp"
#include "worker/store_client.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::worker {

class store_tree {
 public:
  // Of two texts one, whatever their order among the ranks.
  using joiner = std::function<std::string(std::string_view one, std::string_view other)>;

  // `place` is the same on all ranks, and of one tree.
  store_tree(const store_client& store, std::string_view place, std::uint32_t rank,
             std::uint32_t world_size);

  // The texts of all ranks, joined, the same on all. Called by all ranks.
  result<std::string> join(std::string own, const joiner& with, const deadline& until);

  // For the others: this rank comes no more, and why.
  void give_up(std::string_view why, const deadline& until);

  const std::string& problem() const { return problem_; }

 private:
  std::string up(std::uint32_t rank, std::uint64_t turn) const;
  std::string down(std::uint64_t turn) const;
  error_code wait_for(const std::vector<std::string>& keys, const deadline& until);
  error_code keep(error_code error);
  void name_missing(const std::vector<std::string>& keys);

  store_client store_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
  std::uint64_t turn_ = 0;
  std::string problem_;
};

}  // namespace ddprun::worker
