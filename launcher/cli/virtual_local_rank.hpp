// --virtual-local-rank, as in torchrun: each worker sees one GPU, its own, as device 0.
//
// The agent's list of visible devices decides which one: the entry at the worker's local rank, an
// index or a name; without a list, the device with that index. If ROCm's list (HIP_VISIBLE_DEVICES)
// exists, it is used instead of CUDA's, and both are set.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <cstdint>

namespace ddprun::launcher {

// Checks that each of so many workers gets a GPU.
cli::checked check_own_gpus(std::uint32_t workers, const environment_map& inherited);

// Sets LOCAL_RANK to 0 and the visible device in a worker's variables. The check must have passed.
void set_own_gpu(environment_map& variables, std::uint32_t local_rank);

}  // namespace ddprun::launcher
