// A store tree combines small messages of all ranks: that one of them was asked to stop, that all
// have reached a point, some bytes of one rank. It uses the job store, so that ranks need no
// connections to each other.
//
// Each rank waits for the texts of its children, joins its own, and leaves the result for its
// parent; what rank 0 ends with is the result of all. With 16 children for each rank, 1,000 ranks
// form three levels. A turn costs each rank three short requests to the store, and parents one
// more, so with many ranks the store's rate is the limit: do not use it in every step.
//
// Every turn ends by its deadline, even if ranks have died. A rank that knows of a dead one can
// report it with give_up(); the others notice within 1 ms for each rank of the world, but at least
// 1 s and at most 10 s.
//
// Thread rule: one thread at a time, as for store_client. The tree needs a connection of its own.
// Errors: timed_out if a rank is missing; problem() names this rank's children that are missing, if
// there are any. connection_closed if a rank has given up or the store is gone. After an error the
// tree must not be used again.
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
  // Joins two texts. The result must not depend on their order.
  using joiner = std::function<std::string(std::string_view one, std::string_view other)>;

  // `place` is the same on all ranks, and is used by one tree only.
  store_tree(const store_client& store, std::string_view place, std::uint32_t rank,
             std::uint32_t world_size);

  // Returns the joined texts of all ranks, the same on all. All ranks must call it.
  result<std::string> join(std::string own, const joiner& with, const deadline& until);

  // Tells the other ranks that this one takes no further part, and why.
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
