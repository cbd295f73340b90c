#include "launcher/node/numa_topology.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/base/text.hpp"
#include "launcher/cli/gpu_list.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <sched.h>

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

constexpr int processors_max = 1 << 20;

std::optional<int> number_of(std::string_view text) {
  return whole_number<int>(trimmed(text));
}

// The number after a prefix: 3 in "node3".
std::optional<int> numbered(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return {};
  return number_of(name.substr(prefix.size()));
}

int first_listed(const fs::path& list, int otherwise) {
  const std::vector<int> numbers = read_number_list(whole_text(list));
  return numbers.empty() ? otherwise : *std::min_element(numbers.begin(), numbers.end());
}

numa_topology::processor read_processor(const fs::path& root, int number) {
  const fs::path folder = root / ("sys/devices/system/cpu/cpu" + std::to_string(number));
  numa_topology::processor found{number, 0, number, number};
  found.socket = number_of(whole_text(folder / "topology/physical_package_id")).value_or(0);
  found.core = first_listed(folder / "topology/thread_siblings_list", number);
  int highest = -1;
  for (const std::string& name : names_in(folder / "cache")) {
    if (!numbered(name, "index")) continue;
    const fs::path cache = folder / "cache" / name;
    const std::string type = whole_text(cache / "type");
    if (trimmed(type) != "Unified" && trimmed(type) != "Data") continue;
    const int level = number_of(whole_text(cache / "level")).value_or(-1);
    if (level <= highest) continue;
    highest = level;
    found.cache = first_listed(cache / "shared_cpu_list", number);
  }
  return found;
}

struct gpu {
  std::string uuid;
  int node = 0;
};

// In the order of the bus.
std::vector<gpu> read_gpus(const fs::path& root) {
  std::vector<gpu> gpus;
  const fs::path driver = root / "proc/driver/nvidia/gpus";
  for (const std::string& address : names_in(driver)) {
    gpu one;
    const std::string information = whole_text(driver / address / "information");
    constexpr std::string_view label = "GPU UUID:";
    if (const std::size_t at = information.find(label); at != std::string::npos) {
      const std::size_t begin = at + label.size();
      one.uuid = trimmed(
          std::string_view(information).substr(begin, information.find('\n', begin) - begin));
    }
    // The file says -1 if the machine has only one node.
    const auto node = number_of(whole_text(root / "sys/bus/pci/devices" / address / "numa_node"));
    one.node = std::max(node.value_or(0), 0);
    gpus.push_back(std::move(one));
  }
  return gpus;
}

// The nodes of the visible GPUs; an entry may be the beginning of a GPU's UUID.
std::vector<int> nodes_of_gpus(const std::vector<gpu>& gpus, const environment_map& environment) {
  std::vector<int> nodes;
  const auto list = find_visible_list(environment);
  if (!list) {
    for (const gpu& one : gpus)
      nodes.push_back(one.node);
    return nodes;
  }
  for (const std::string& device : list->devices) {
    const auto number = number_of(device);
    if (number && *number >= 0 && static_cast<std::size_t>(*number) < gpus.size()) {
      nodes.push_back(gpus[static_cast<std::size_t>(*number)].node);
      continue;
    }
    const auto named = std::find_if(gpus.begin(), gpus.end(), [&](const gpu& one) {
      return device.starts_with("GPU-") && one.uuid.starts_with(device);
    });
    if (named == gpus.end()) return {};  // a part of a GPU, or one that is not here
    nodes.push_back(named->node);
  }
  return nodes;
}

}  // namespace

numa_topology read_numa_topology(const std::string& root, const std::vector<int>& allowed,
                                 const environment_map& environment) {
  numa_topology topology;
  const fs::path base(root);
  const fs::path nodes = base / "sys/devices/system/node";
  for (const std::string& name : names_in(nodes)) {
    const auto node = numbered(name, "node");
    if (!node) continue;
    std::vector<numa_topology::processor> its;
    for (const int number : read_number_list(whole_text(nodes / name / "cpulist"))) {
      if (std::find(allowed.begin(), allowed.end(), number) == allowed.end()) continue;
      its.push_back(read_processor(base, number));
    }
    if (!its.empty()) topology.nodes.emplace(*node, std::move(its));
  }
  if (topology.nodes.empty()) {  // a kernel without NUMA has no such folder
    for (const int number : allowed)
      topology.nodes[0].push_back(read_processor(base, number));
  }
  topology.gpus = nodes_of_gpus(read_gpus(base), environment);
  return topology;
}

std::vector<int> allowed_processors(int pid) {
  std::vector<int> allowed;
  // The mask must be at least as large as the kernel's: grow until it fits.
  for (int count = 1024; count <= processors_max && allowed.empty(); count *= 2) {
    const auto size = static_cast<std::size_t>(count);
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(size), [](cpu_set_t* mask) { CPU_FREE(mask); });
    const std::size_t bytes = CPU_ALLOC_SIZE(size);
    if (!set || ::sched_getaffinity(pid, bytes, set.get()) != 0) continue;
    for (int number = 0; number < count; ++number) {
      if (CPU_ISSET_S(static_cast<std::size_t>(number), bytes, set.get()))
        allowed.push_back(number);
    }
  }
  return allowed;
}

std::vector<int> read_number_list(std::string_view text) {
  std::vector<int> numbers;
  for (const std::string_view entry : split(text, ',')) {
    const std::string_view part = trimmed(entry);
    const std::size_t dash = part.find('-');
    const auto first = number_of(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number_of(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last > processors_max) continue;
    for (int number = *first; number <= *last; ++number)
      numbers.push_back(number);
  }
  return numbers;
}

std::string number_list(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t index = 0; index < numbers.size();) {
    std::size_t last = index;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1)
      ++last;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[index]);
    if (last > index) text += "-" + std::to_string(numbers[last]);
    index = last + 1;
  }
  return text;
}

}  // namespace ddprun::launcher
