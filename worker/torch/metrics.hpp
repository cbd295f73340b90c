// Averages meters over all ranks: one all_reduce adds up their sums and weights.
//
// Thread rule and errors: as for process_group. All ranks must call it, with the same number of
// meters.
#pragma once

#include "worker/metrics/meter.hpp"
#include "worker/torch/process_group.hpp"

#include <initializer_list>
#include <span>

namespace ddprun::worker {

void average_over_ranks(process_group& group, std::span<meter* const> meters);
void average_over_ranks(process_group& group, std::initializer_list<meter*> meters);

}  // namespace ddprun::worker
