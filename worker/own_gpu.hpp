// Which of the GPUs that a worker sees is its own: LOCAL_RANK's, where each worker sees all GPUs of
// the node; where it sees just one, that one.
//
// Thread rule: any thread; it reads CUDA_VISIBLE_DEVICES for its texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::worker {

// `visible` is how many there are, `wanted` one that the program names. None: `problem` says why,
// with `reason`, CUDA's own, where none is visible.
std::optional<int> own_gpu(int visible, std::uint32_t local_rank, std::optional<int> wanted,
                           const std::string& reason, std::string& problem);

}  // namespace ddprun::worker
