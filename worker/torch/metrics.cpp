#include "worker/torch/metrics.hpp"

#include <cstddef>
#include <vector>

namespace ddprun::worker {

void average_over_ranks(process_group& group, std::initializer_list<meter*> meters) {
  average_over_ranks(group, std::span<meter* const>(meters.begin(), meters.size()));
}

void average_over_ranks(process_group& group, std::span<meter* const> meters) {
  std::vector<double> sums;
  for (const meter* each : meters) {
    sums.push_back(each->sum());
    sums.push_back(each->weight());
  }
  group.sum(sums);
  for (std::size_t at = 0; at < meters.size(); ++at)
    meters[at]->set(sums[2 * at], sums[2 * at + 1]);
}

}  // namespace ddprun::worker
