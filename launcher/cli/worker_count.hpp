// Turns --nproc-per-node into a number, by looking at this machine.
//
// Processors are those that this process may run on (taskset, cpusets). GPUs are counted without
// loading CUDA: the device files that are visible here, narrowed by CUDA_VISIBLE_DEVICES as CUDA
// itself reads it. A container that hides /dev and /proc/driver shows no GPU; give a number there.
//
// Thread rule: any thread; reads /dev, /proc and the process's affinity.
#pragma once

#include "launcher/cli/options.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <cstdint>
#include <string_view>

namespace ddprun::launcher {

// What the machine has.
struct processor_counts {
  std::uint32_t cpus = 1;
  std::uint32_t gpus = 0;
};

processor_counts count_processors(const environment_map& environment);

// Pure: the number of GPUs that CUDA shows of `present` ones under CUDA_VISIBLE_DEVICES. An index
// that is not there hides itself and all after it; names ("GPU-...", "MIG-...") count as given.
std::uint32_t visible_gpus(std::uint32_t present, std::string_view visible_devices);

// Pure: at least 1. `gpu` without a GPU is an error.
cli::parsed<std::uint32_t> count_workers(const worker_count_request& request,
                                         const processor_counts& counts);

}  // namespace ddprun::launcher
