#include "launcher/cli/worker_count.hpp"

#include <algorithm>
#include <charconv>
#include <dirent.h>
#include <memory>
#include <sched.h>
#include <unistd.h>
#include <vector>

namespace ddprun::launcher {
namespace {

template <typename Accept>
std::uint32_t count_entries(const char* folder, Accept accept) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder), closedir);
  std::uint32_t count = 0;
  if (!open) return count;
  while (const dirent* const entry = readdir(open.get())) {
    if (accept(std::string_view(entry->d_name))) ++count;
  }
  return count;
}

bool is_gpu_device(std::string_view name) {
  constexpr std::string_view prefix = "nvidia";
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

// A container sees its own GPUs in /dev; a host whose driver nobody has used yet only in /proc.
std::uint32_t present_gpus() {
  const std::uint32_t devices = count_entries("/dev", is_gpu_device);
  if (devices > 0) return devices;
  return count_entries("/proc/driver/nvidia/gpus",
                       [](std::string_view name) { return !name.starts_with('.'); });
}

std::uint32_t usable_cpus() {
  // The kernel wants a mask at least as large as its own: grow until it fits.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(static_cast<std::size_t>(cpus)), [](cpu_set_t* mask) { CPU_FREE(mask); });
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    if (set && sched_getaffinity(0, bytes, set.get()) == 0) {
      return static_cast<std::uint32_t>(std::max(1, CPU_COUNT_S(bytes, set.get())));
    }
  }
  return static_cast<std::uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

std::uint32_t visible_gpus(std::uint32_t present, std::string_view visible_devices) {
  std::vector<std::string_view> seen;
  while (!visible_devices.empty()) {
    const std::size_t comma = visible_devices.find(',');
    std::string_view device = visible_devices.substr(0, comma);
    visible_devices =
        comma == std::string_view::npos ? std::string_view() : visible_devices.substr(comma + 1);
    device.remove_prefix(std::min(device.find_first_not_of(' '), device.size()));
    const bool is_name = device.starts_with("GPU-") || device.starts_with("MIG-");
    if (!is_name) {
      std::uint32_t index = 0;
      const auto [stopped, error] =
          std::from_chars(device.data(), device.data() + device.size(), index);
      if (error != std::errc() || index >= present) break;
    }
    if (std::find(seen.begin(), seen.end(), device) != seen.end()) return 0;  // CUDA shows none
    seen.push_back(device);
  }
  return static_cast<std::uint32_t>(seen.size());
}

processor_counts count_processors(const environment_map& environment) {
  processor_counts counts{usable_cpus(), present_gpus()};
  const std::string* const visible = find_variable(environment, "CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && counts.gpus > 0) counts.gpus = visible_gpus(counts.gpus, *visible);
  return counts;
}

cli::parsed<std::uint32_t> count_workers(const worker_count_request& request,
                                         const processor_counts& counts) {
  switch (request.kind) {
    case worker_count_kind::number:
      return request.number;
    case worker_count_kind::cpu:
      return counts.cpus;
    case worker_count_kind::gpu:
      break;
    case worker_count_kind::automatic:
      return counts.gpus > 0 ? counts.gpus : counts.cpus;
  }
  if (counts.gpus > 0) return counts.gpus;
  return cli::usage_error{
      "--nproc-per-node=gpu: no GPU is visible here (/dev/nvidia*, CUDA_VISIBLE_DEVICES); give a "
      "number, or cpu"};
}

}  // namespace ddprun::launcher
