// Chooses a worker's own GPU among those that it sees. If each worker sees all GPUs of the node,
// that is the one numbered LOCAL_RANK; if it sees only one, it is that one.
//
// Thread rule: any thread; it reads CUDA_VISIBLE_DEVICES for its error texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::worker {

// `visible` is the number of visible GPUs, `wanted` the one that the program asks for. On failure
// the result is empty and `problem` says why; if no GPU is visible, it includes `reason`, which is
// CUDA's own error text.
std::optional<int> own_gpu(int visible, std::uint32_t local_rank, std::optional<int> wanted,
                           const std::string& reason, std::string& problem);

}  // namespace ddprun::worker
