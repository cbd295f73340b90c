// How many of NCCL's unique ids a round gets. With more than one, its ranks bootstrap in several
// places at once, and no single process has to answer all of them.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <cstdint>

namespace ddprun::launcher {

inline constexpr std::uint32_t nccl_ids_max_made = 65536;  // by one ddprun-nccl-id

// One per 128 ranks, rounded up, or per TORCH_NCCL_RANKS_PER_ROOT, which PyTorch reads, too: at
// least 1, at most nccl_ids_max_made. A value that is not a positive number is ignored.
std::uint32_t nccl_id_count(std::uint32_t world_size, const environment_map& environment);

}  // namespace ddprun::launcher
