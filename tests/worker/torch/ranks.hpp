// Runs a function as several ranks, each in its own process, joined by one store; for tests of
// worker/torch.
//
// The test's own process never uses LibTorch: it must stay without LibTorch's threads, because it
// forks. Whatever a test does with tensors, it does in a rank, and tells by the text it returns.
#pragma once

#include "worker/environment.hpp"

#include <functional>
#include <string>
#include <vector>

namespace ddprun::tests {

// What each rank returned; an exception's text as "error: ..."; of one that died, "exited with 7"
// or "killed by signal 9".
std::vector<std::string> run_ranks(
    std::uint32_t count, const std::function<std::string(const worker::environment&)>& rank);

}  // namespace ddprun::tests
