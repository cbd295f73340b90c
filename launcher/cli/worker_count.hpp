// Turns --nproc-per-node into a number for this machine.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/cli/processor_count.hpp"

#include <cstdint>

namespace ddprun::launcher {

// At least 1. `gpu` without a GPU is an error, and so is `xpu` without an XPU. `auto`: one per GPU;
// otherwise one per XPU if the workers' PyTorch is for XPUs (`is_for_xpu`); otherwise one per
// processor.
cli::parsed<std::uint32_t> count_workers(const worker_count_request& request,
                                         const processor_counts& counts, bool is_for_xpu = false);

}  // namespace ddprun::launcher
