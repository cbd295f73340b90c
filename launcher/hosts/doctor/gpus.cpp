#include "launcher/hosts/doctor/gpus.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/cli/processor_count.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <regex>

namespace ddprun::launcher::doctor {
namespace {

namespace fs = std::filesystem;

// Finds "580.65.06" in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ...".
std::string driver_version(const fs::path& root) {
  const std::string line = first_line(root / "proc/driver/nvidia/version").value_or("");
  std::smatch found;
  return std::regex_search(line, found, std::regex(R"(\s(\d+\.\d+(\.\d+)?)\s)")) ? found[1].str()
                                                                                 : "";
}

void read_infiniband(const fs::path& root, gpu_facts& facts) {
  const fs::path cards = root / "sys/class/infiniband";
  for (const std::string& card : names_in(cards)) {
    for (const std::string& port : names_in(cards / card / "ports")) {
      const std::string state = first_line(cards / card / "ports" / port / "state").value_or("?");
      if (state.find("ACTIVE") != std::string::npos)
        ++facts.active_ports;
      else
        facts.inactive_ports.push_back(fmt::format("{}/{} ({})", card, port, state));
    }
  }
}

std::string narrowed_by(const environment_map& environment,
                        std::initializer_list<const char*> variables) {
  std::string text;
  for (const char* const variable : variables) {
    const std::string* const list = find_variable(environment, variable);
    if (list != nullptr) text += fmt::format("{}{}={}", text.empty() ? "" : " ", variable, *list);
  }
  return text;
}

void judge_visible(const counted_gpus& counted, finding& found) {
  if (counted.visible >= counted.present) return;
  found.seen += fmt::format("; {} leaves {}", counted.narrowed_by, counted.visible);
  if (counted.visible > 0) return;
  found.state = health::warning;
  found.advice = "unset it, or workers find no GPU";
}

finding judge_nvidia(const gpu_facts& facts) {
  finding found{"GPUs", health::ok, {}, {}};
  if (facts.driver.empty()) {
    found.state = health::error;
    found.seen = fmt::format("{} device files, but no driver", facts.device_files);
    found.advice = "load NVIDIA's driver: nvidia-smi says what is wrong with it";
  } else if (facts.gpus.present == 0) {
    found.state = health::error;
    found.seen = "driver " + facts.driver + " is loaded, but there is no GPU device";
    found.advice = "give the container its GPUs (--gpus all, nvidia.com/gpu)";
  } else {
    found.seen = fmt::format("{}, driver {}", facts.gpus.present, facts.driver);
    judge_visible(facts.gpus, found);
    if (facts.device_files == 0) {
      found.state = health::warning;
      found.seen += ", but there is no device file here";
      found.advice =
          "give a container its GPUs (--gpus all, nvidia.com/gpu); on a host nvidia-smi makes them";
    }
  }
  return found;
}

finding judge_devices(const gpu_facts& facts) {
  if (facts.device_files > 0 || !facts.driver.empty()) return judge_nvidia(facts);
  finding found{"GPUs", health::ok, {}, {}};
  if (facts.gpus.present > 0) {
    found.seen = fmt::format("{} of AMD", facts.gpus.present);
    judge_visible(facts.gpus, found);
  }
  if (facts.xpus.present > 0) {
    found.seen += fmt::format("{}{} of Intel", found.seen.empty() ? "" : "; ", facts.xpus.present);
    judge_visible(facts.xpus, found);
  }
  if (found.seen.empty()) found.seen = "none";
  return found;
}

}  // namespace

gpu_facts read_gpus(const fs::path& root, const environment_map& environment) {
  gpu_facts facts;
  const processor_counts present = count_processors({}, root.string() + "/");
  const processor_counts visible = count_processors(environment, root.string() + "/");
  const std::vector<std::string> devices = names_in(root / "dev");
  facts.device_files =
      static_cast<std::uint32_t>(std::count_if(devices.begin(), devices.end(), is_nvidia_gpu));
  facts.driver = driver_version(root);
  const bool is_nvidia = facts.device_files > 0 || !facts.driver.empty();
  facts.gpus = {present.gpus, visible.gpus,
                is_nvidia ? narrowed_by(environment, {"CUDA_VISIBLE_DEVICES"})
                          : narrowed_by(environment, {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                                      "CUDA_VISIBLE_DEVICES"})};
  facts.xpus = {present.xpus, visible.xpus, narrowed_by(environment, {"ZE_AFFINITY_MASK"})};
  if (facts.device_files > 0) facts.holders = find_gpu_holders(root);
  read_infiniband(root, facts);
  return facts;
}

findings judge_gpus(const gpu_facts& facts) {
  findings found = {judge_devices(facts)};
  if (!facts.holders.empty()) {
    found.push_back({"GPU users", health::warning, holders_text(facts.holders),
                     "their memory is not free for a job: end what an old job has left"});
  }
  if (facts.active_ports > 0 || !facts.inactive_ports.empty()) {
    const bool is_good = facts.inactive_ports.empty();
    found.push_back(
        {"InfiniBand", is_good ? health::ok : health::warning,
         fmt::format("{} of {} ports are active", facts.active_ports,
                     facts.active_ports + facts.inactive_ports.size()) +
             (is_good ? "" : fmt::format(": not {}", fmt::join(facts.inactive_ports, ", "))),
         is_good ? ""
                 : "NCCL uses the others: cable, switch, subnet manager? NCCL_IB_HCA "
                   "names those to use"});
  }
  return found;
}

}  // namespace ddprun::launcher::doctor
