// --gpus: which of this node's GPUs its workers use, by number.
//
// Where the agent itself has a list of visible devices (CUDA_VISIBLE_DEVICES, ROCm's
// HIP_VISIBLE_DEVICES), the numbers count within that, as a program's own numbers do.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// "2,4,7", "0-3,6": in the order in which they are written, none twice.
cli::parsed<std::vector<std::uint32_t>> read_gpu_list(std::string_view given,
                                                      std::string_view value);

// Puts the list for the workers into the agent's variables. `present`: how many GPUs this node has;
// 0: that is not known.
cli::checked show_gpus(environment_map& variables, const std::vector<std::uint32_t>& gpus,
                       std::uint32_t present);

// A list of visible devices, as an environment has it.
struct visible_list {
  const char* variable;
  std::vector<std::string> devices;
};

// The one that counts; none: all are visible.
std::optional<visible_list> find_visible_list(const environment_map& variables);

// What every list in `variables` is to hold from now on.
void set_visible_list(environment_map& variables, const std::string& devices);

}  // namespace ddprun::launcher
