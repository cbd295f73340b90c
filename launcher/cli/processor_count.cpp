#include "launcher/cli/processor_count.hpp"

#include "launcher/base/cgroup_folders.hpp"
#include "launcher/base/node_files.hpp"
#include "launcher/base/text.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sched.h>
#include <unistd.h>
#include <vector>

namespace ddprun::launcher {
namespace {

constexpr const char* intel = "0x8086";

template <typename Accept>
std::uint32_t count_entries(const std::string& folder, Accept accept) {
  const std::vector<std::string> names = names_in(folder);
  return static_cast<std::uint32_t>(std::count_if(names.begin(), names.end(), accept));
}

bool is_numbered(std::string_view name, std::string_view prefix) {
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

std::string first_word(const std::string& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

// A container sees its own GPUs in /dev; a host whose driver has not been used yet only in /proc.
std::uint32_t nvidia_gpus(const std::string& root) {
  const std::uint32_t devices = count_entries(root + "dev", is_nvidia_gpu);
  if (devices > 0) return devices;
  return static_cast<std::uint32_t>(names_in(root + "proc/driver/nvidia/gpus").size());
}

// A node of ROCm's topology without a GPU has the id 0; one with unreadable files belongs to
// another container.
std::uint32_t amd_gpus(const std::string& root) {
  const std::string nodes = root + "sys/class/kfd/kfd/topology/nodes";
  return count_entries(nodes, [&](const std::string& name) {
    const std::string id = first_word(nodes + "/" + name + "/gpu_id");
    return !id.empty() && id != "0" && !first_word(nodes + "/" + name + "/properties").empty();
  });
}

std::uint32_t intel_gpus(const std::string& root) {
  const std::string cards = root + "sys/class/drm";
  return count_entries(cards, [&](const std::string& name) {
    return is_numbered(name, "renderD") &&
           first_word(cards + "/" + name + "/device/vendor") == intel;
  });
}

void narrow(std::uint32_t& count, const environment_map& environment, const char* variable) {
  const std::string* const list = find_variable(environment, variable);
  if (list != nullptr && count > 0) count = visible_gpus(count, *list);
}

// ROCR_VISIBLE_DEVICES is applied below HIP, which reads its own variable or, without it, CUDA's.
std::uint32_t visible_amd_gpus(const environment_map& environment, const std::string& root) {
  std::uint32_t count = amd_gpus(root);
  narrow(count, environment, "ROCR_VISIBLE_DEVICES");
  const std::string* const hip = find_variable(environment, "HIP_VISIBLE_DEVICES");
  narrow(count, environment, hip != nullptr ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES");
  return count;
}

std::uint32_t affinity_cpus() {
  // The mask must be at least as large as the kernel's: grow until it fits.
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

// "max" in version 2 and -1 in version 1 mean no limit.
std::optional<std::uint32_t> whole_processors(const std::string& quota, const std::string& period) {
  const long long time = std::atoll(quota.c_str());
  const long long of = std::atoll(period.c_str());
  if (time <= 0 || of <= 0) return {};
  return static_cast<std::uint32_t>(std::clamp((time + of - 1) / of, 1LL, 1LL << 20));
}

std::optional<std::uint32_t> limit_of(const std::string& group, bool is_version_2) {
  if (!is_version_2) {
    return whole_processors(first_word(group + "/cpu.cfs_quota_us"),
                            first_word(group + "/cpu.cfs_period_us"));
  }
  std::string quota, period;
  std::ifstream(group + "/cpu.max") >> quota >> period;
  return whole_processors(quota, period);
}

}  // namespace

bool is_nvidia_gpu(std::string_view device) {
  return is_numbered(device, "nvidia");
}

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
      const auto index = leading_number<std::uint32_t>(device);
      if (!index || *index >= present) break;
    }
    if (std::find(seen.begin(), seen.end(), device) != seen.end()) return 0;  // CUDA shows none
    seen.push_back(device);
  }
  return static_cast<std::uint32_t>(seen.size());
}

// A group's limit holds for all groups inside it.
std::optional<std::uint32_t> limited_cpus(const std::string& root) {
  std::optional<std::uint32_t> least;
  for (const bool is_version_2 : {true, false}) {
    for (const std::string& group : own_cgroup_folders(root, is_version_2 ? "" : "cpu")) {
      const auto limit = limit_of(group, is_version_2);
      if (limit && (!least || *limit < *least)) least = limit;
    }
  }
  return least;
}

processor_counts count_processors(const environment_map& environment, const std::string& root) {
  processor_counts counts;
  counts.cpus = affinity_cpus();
  if (const auto limit = limited_cpus(root)) counts.cpus = std::min(counts.cpus, *limit);
  counts.gpus = nvidia_gpus(root);
  if (counts.gpus > 0) {
    narrow(counts.gpus, environment, "CUDA_VISIBLE_DEVICES");
  } else {
    counts.gpus = visible_amd_gpus(environment, root);
  }
  counts.xpus = intel_gpus(root);
  narrow(counts.xpus, environment, "ZE_AFFINITY_MASK");
  return counts;
}

}  // namespace ddprun::launcher
