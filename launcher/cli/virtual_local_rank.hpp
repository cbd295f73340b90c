// --virtual-local-rank, as torchrun has it: each worker sees one GPU, its own, as device 0.
//
// Which one is said by the agent's own list of visible devices: the one at the worker's local rank,
// by index or by name; without a list the device with that index. ROCm's list (HIP_VISIBLE_DEVICES)
// counts more than CUDA's, where there is one, and then both are set.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <cstdint>

namespace ddprun::launcher {

// Whether each of so many workers gets a GPU.
cli::checked check_own_gpus(std::uint32_t workers, const environment_map& inherited);

// In the variables of a worker: LOCAL_RANK 0, and what it sees. The check must have passed.
void set_own_gpu(environment_map& variables, std::uint32_t local_rank);

}  // namespace ddprun::launcher
