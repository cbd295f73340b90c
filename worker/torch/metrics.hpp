// Meters of all ranks as one: sums and weights are added up over the ranks, by one all_reduce.
//
// Thread rule and errors: as process_group. Called by all ranks, with as many meters.
#pragma once

#include "worker/metrics/meter.hpp"
#include "worker/torch/process_group.hpp"

#include <initializer_list>
#include <span>

namespace ddprun::worker {

void average_over_ranks(process_group& group, std::span<meter* const> meters);
void average_over_ranks(process_group& group, std::initializer_list<meter*> meters);

}  // namespace ddprun::worker
