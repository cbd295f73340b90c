// --gpus: which of this node's GPUs its workers use, by number.
//
// If the agent itself has a list of visible devices (CUDA_VISIBLE_DEVICES, ROCm's
// HIP_VISIBLE_DEVICES), the numbers are positions in that list, as in any program.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// "2,4,7", "0-3,6": in the written order, none twice.
cli::parsed<std::vector<std::uint32_t>> read_gpu_list(std::string_view given,
                                                      std::string_view value);

// Puts the workers' list into the agent's variables. `present`: how many GPUs this node has; 0:
// unknown.
cli::checked show_gpus(environment_map& variables, const std::vector<std::uint32_t>& gpus,
                       std::uint32_t present);

// A list of visible devices from an environment.
struct visible_list {
  const char* variable;
  std::vector<std::string> devices;
};

// The list that applies; empty: all devices are visible.
std::optional<visible_list> find_visible_list(const environment_map& variables);

// Replaces every such list in `variables`.
void set_visible_list(environment_map& variables, const std::string& devices);

}  // namespace ddprun::launcher
