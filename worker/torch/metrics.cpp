#include "worker/torch/metrics.hpp"

#include <ATen/ops/empty.h>

namespace ddprun::worker {

void average_over_ranks(process_group& group, std::initializer_list<meter*> meters) {
  average_over_ranks(group, std::span<meter* const>(meters.begin(), meters.size()));
}

void average_over_ranks(process_group& group, std::span<meter* const> meters) {
  auto sums = at::empty({static_cast<std::int64_t>(2 * meters.size())}, at::kDouble);
  auto* at = sums.data_ptr<double>();
  for (const meter* each : meters) {
    *at++ = each->sum();
    *at++ = each->weight();
  }
  group.all_reduce_sum(sums);
  at = sums.data_ptr<double>();
  for (meter* each : meters) {
    each->set(at[0], at[1]);
    at += 2;
  }
}

}  // namespace ddprun::worker
