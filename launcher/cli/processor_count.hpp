// Counts the processors, GPUs and XPUs that a job may use on this machine.
//
// Processors are those on which this process may run (taskset, cpusets), but no more than its
// cgroup's CPU limit, rounded up. GPUs are counted without loading a driver's library: the devices
// that the kernel shows here, narrowed by CUDA_VISIBLE_DEVICES, ROCm's ROCR_VISIBLE_DEVICES and
// HIP_VISIBLE_DEVICES, and ZE_AFFINITY_MASK in the same way as their own readers do. A container
// that hides /dev, /proc and /sys shows none.
//
// Thread rule: any thread; reads /dev, /proc, /sys and the process's affinity.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

// The counts of this machine.
struct processor_counts {
  std::uint32_t cpus = 1;
  std::uint32_t gpus = 0;  // NVIDIA's, otherwise AMD's
  std::uint32_t xpus = 0;  // Intel's cards
};

// `root` is "/" except in tests.
processor_counts count_processors(const environment_map& environment,
                                  const std::string& root = "/");

// True if this is the /dev file of an NVIDIA GPU: "nvidia0", not "nvidiactl".
bool is_nvidia_gpu(std::string_view device);

// The number of processors that the cgroups' CPU limits allow, at least 1; empty: no limit.
std::optional<std::uint32_t> limited_cpus(const std::string& root);

// Pure: how many of `present` GPUs CUDA shows under CUDA_VISIBLE_DEVICES. A missing index hides
// itself and all after it; names ("GPU-...", "MIG-...") count as given.
std::uint32_t visible_gpus(std::uint32_t present, std::string_view visible_devices);

}  // namespace ddprun::launcher
