// Runs a function as several ranks, each in its own process and connected by one store, for tests
// of worker/torch.
//
// The test's own process must not use LibTorch, because it forks and LibTorch's threads would not
// survive that. Whatever a test does with tensors happens in a rank, which reports by the text that
// it returns.
#pragma once

#include "worker/environment.hpp"

#include <functional>
#include <string>
#include <vector>

namespace ddprun::tests {

// Returns each rank's text: what it returned, "error: ..." for an exception, and "exited with 7" or
// "killed by signal 9" if it died.
std::vector<std::string> run_ranks(
    std::uint32_t count, const std::function<std::string(const worker::environment&)>& rank);

}  // namespace ddprun::tests
