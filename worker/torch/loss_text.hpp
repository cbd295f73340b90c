// What texts say of ranks that are lost. An error with such words is marked as one of another rank
// (lost_peer.hpp).
#pragma once

namespace ddprun::worker {

inline constexpr const char* lost_text = "has lost another rank";     // a rank, or NCCL
inline constexpr const char* waiting_text = "waits for other ranks";  // the GPU: loss_rule.hpp

}  // namespace ddprun::worker
