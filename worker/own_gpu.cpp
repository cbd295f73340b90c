#include "worker/own_gpu.hpp"

#include <cstdlib>

namespace ddprun::worker {

std::optional<int> own_gpu(int visible, std::uint32_t local_rank, std::optional<int> wanted,
                           const std::string& reason, std::string& problem) {
  const char* const list = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string seen =
      list == nullptr ? "" : " (CUDA_VISIBLE_DEVICES=" + std::string(list) + ")";
  if (visible == 0) {
    problem = "no GPU is visible" + seen + (reason.empty() ? "" : ": " + reason);
    return std::nullopt;
  }
  // A worker that sees only one GPU was given that one by the launcher or scheduler.
  const int own = visible == 1 ? 0 : static_cast<int>(local_rank);
  const int chosen = wanted.value_or(own);
  if (chosen >= 0 && chosen < visible) return chosen;
  problem = "GPU " + std::to_string(chosen) + " is wanted, and " + std::to_string(visible) +
            " are visible" + seen + ": start at most as many workers on this node";
  return std::nullopt;
}

}  // namespace ddprun::worker
