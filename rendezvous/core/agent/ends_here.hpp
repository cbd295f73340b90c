// How each worker of a round ended at this node, as far as it has; told once all have.
//
// Thread rule: one thread, as the agent.
#pragma once

#include "rendezvous/core/messages/rank_ends.hpp"

#include <cstdint>
#include <vector>

namespace ddprun::core {

class ends_here {
 public:
  void set(std::uint32_t local_rank, ending how) { ends_.push_back({how, local_rank, local_rank}); }
  std::vector<ended_ranks> tell(std::uint32_t rank_first) const {
    std::vector<ended_ranks> told = ends_;
    for (ended_ranks& one : told) {
      one.first += rank_first;
      one.last += rank_first;
    }
    return merged(std::move(told));
  }

 private:
  std::vector<ended_ranks> ends_;
};

}  // namespace ddprun::core
