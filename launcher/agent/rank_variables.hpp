// Finds the variables of a worker's environment that differ between workers or rounds, by comparing
// the environments of artificial rounds.
#pragma once

#include "launcher/agent/worker_environment.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::launcher {

// A round whose values all differ from those of a round with another number.
worker_round round_of_number(std::uint32_t number, std::uint32_t worker_count);

// Returns their names.
std::vector<std::string> rank_variables(const launch_options& options, std::uint32_t worker_count,
                                        const environment_map& inherited);

}  // namespace ddprun::launcher
