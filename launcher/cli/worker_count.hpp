// Turns --nproc-per-node into a number, given what this machine has.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/cli/processor_count.hpp"

#include <cstdint>

namespace ddprun::launcher {

// At least 1. `gpu` without a GPU is an error, and `xpu` without an XPU. `auto`: one per GPU, one
// per XPU where the workers' PyTorch `is_for_xpu`, else one per processor.
cli::parsed<std::uint32_t> count_workers(const worker_count_request& request,
                                         const processor_counts& counts, bool is_for_xpu = false);

}  // namespace ddprun::launcher
