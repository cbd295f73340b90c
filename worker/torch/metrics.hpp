// Meters of all ranks as one: sums and weights are added up over the ranks, by one all_reduce.
//
// Thread rule and errors: as process_group. Called by all ranks, with as many meters.
#pragma once

#include "worker/metrics/meter.hpp"
#include "worker/torch/process_group.hpp"

#include <initializer_list>

namespace ddprun::worker {

void average_over_ranks(process_group& group, std::initializer_list<meter*> meters);

}  // namespace ddprun::worker
