// Which variables of a worker's environment differ between workers, or from round to round: found
// by comparing those of made-up rounds.
#pragma once

#include "launcher/agent/worker_environment.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::launcher {

// A round in which everything is another than in one with another number.
worker_round round_of_number(std::uint32_t number, std::uint32_t worker_count);

// Their names.
std::vector<std::string> rank_variables(const launch_options& options, std::uint32_t worker_count,
                                        const environment_map& inherited);

}  // namespace ddprun::launcher
