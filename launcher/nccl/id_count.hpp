// How many of NCCL's unique ids a round gets: with more than one, its ranks meet in several places
// at once, and no one process has to answer all of them.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <cstdint>

namespace ddprun::launcher {

inline constexpr std::uint32_t nccl_ids_max_made = 65536;  // by one ddprun-nccl-id

// One for each 128 ranks begun, or as many as TORCH_NCCL_RANKS_PER_ROOT says, which PyTorch reads
// too: at least 1, at most nccl_ids_max_made. A value that is no number from 1 on is as if not set.
std::uint32_t nccl_id_count(std::uint32_t world_size, const environment_map& environment);

}  // namespace ddprun::launcher
