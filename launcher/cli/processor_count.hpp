// Counts the processors, GPUs and XPUs that a job may use on this machine.
//
// Processors are those that this process may run on (taskset, cpusets), and no more than the time
// that its cgroup is given (a container's CPU limit, rounded up). GPUs are counted without loading
// a driver's library: the devices that the kernel shows here, narrowed by CUDA_VISIBLE_DEVICES,
// ROCm's ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES, and ZE_AFFINITY_MASK as those who read them
// do. A container that hides /dev, /proc and /sys shows none.
//
// Thread rule: any thread; reads /dev, /proc, /sys and the process's affinity.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

// What the machine has.
struct processor_counts {
  std::uint32_t cpus = 1;
  std::uint32_t gpus = 0;  // NVIDIA's, else AMD's
  std::uint32_t xpus = 0;  // Intel's cards
};

// `root` is "/", but for tests.
processor_counts count_processors(const environment_map& environment,
                                  const std::string& root = "/");

// Is it the file of one of NVIDIA's GPUs in /dev? "nvidia0", not "nvidiactl".
bool is_nvidia_gpu(std::string_view device);

// How many processors the CPU limits of the cgroups come to, at least 1; none: no limit.
std::optional<std::uint32_t> limited_cpus(const std::string& root);

// Pure: the number of GPUs that CUDA shows of `present` ones under CUDA_VISIBLE_DEVICES. An index
// that is not there hides itself and all after it; names ("GPU-...", "MIG-...") count as given.
std::uint32_t visible_gpus(std::uint32_t present, std::string_view visible_devices);

}  // namespace ddprun::launcher
