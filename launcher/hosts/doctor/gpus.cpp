#include "launcher/hosts/doctor/gpus.hpp"

#include "launcher/cli/worker_count.hpp"
#include "launcher/hosts/doctor/node_files.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <pwd.h>
#include <regex>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::launcher::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t holders_shown = 8;

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

bool is_gpu(const std::string& name) {
  return name.starts_with("nvidia") && is_number(name.substr(6));
}

std::string user_name(uid_t user) {
  const passwd* const found = getpwuid(user);
  return found == nullptr ? std::to_string(user) : found->pw_name;
}

bool holds_a_gpu(const fs::path& process) {
  std::error_code error;
  for (const std::string& name : names_in(process / "fd")) {
    const fs::path target = fs::read_symlink(process / "fd" / name, error);
    if (!error && target.parent_path() == "/dev" && is_gpu(target.filename())) return true;
  }
  return false;
}

std::vector<gpu_holder> find_holders(const fs::path& root) {
  std::vector<gpu_holder> holders;
  for (const std::string& name : names_in(root / "proc")) {
    const fs::path process = root / "proc" / name;
    if (!is_number(name) || !holds_a_gpu(process)) continue;
    struct stat owner {};
    if (stat(process.c_str(), &owner) != 0) continue;  // it has ended
    holders.push_back({static_cast<pid_t>(std::stol(name)),
                       first_line(process / "comm").value_or("?"), user_name(owner.st_uid)});
  }
  return holders;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ..."
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

finding judge_devices(const gpu_facts& facts) {
  finding found{"GPUs", health::ok, {}, {}};
  if (facts.devices == 0 && facts.driver.empty()) {
    found.seen = "none";
  } else if (facts.devices == 0) {
    found.state = health::error;
    found.seen = "driver " + facts.driver + " is loaded, and no device is here";
    found.advice = "give the container its GPUs (--gpus all, nvidia.com/gpu)";
  } else if (facts.driver.empty()) {
    found.state = health::error;
    found.seen = fmt::format("{} device files, and no driver", facts.devices);
    found.advice = "load NVIDIA's driver: nvidia-smi says what is wrong with it";
  } else {
    found.seen = fmt::format("{}, driver {}", facts.devices, facts.driver);
    if (facts.visible < facts.devices) {
      found.seen +=
          fmt::format("; CUDA_VISIBLE_DEVICES={} leaves {}", facts.visible_devices, facts.visible);
      if (facts.visible == 0) {
        found.state = health::warning;
        found.advice = "unset it, or workers find no GPU";
      }
    }
  }
  return found;
}

}  // namespace

gpu_facts read_gpus(const fs::path& root, const environment_map& environment) {
  gpu_facts facts;
  for (const std::string& name : names_in(root / "dev"))
    facts.devices += is_gpu(name) ? 1 : 0;
  facts.visible = facts.devices;
  if (const std::string* const list = find_variable(environment, "CUDA_VISIBLE_DEVICES")) {
    facts.visible_devices = *list;
    facts.visible = visible_gpus(facts.devices, *list);
  }
  facts.driver = driver_version(root);
  if (facts.devices > 0) facts.holders = find_holders(root);
  read_infiniband(root, facts);
  return facts;
}

findings judge_gpus(const gpu_facts& facts) {
  findings found = {judge_devices(facts)};
  if (!facts.holders.empty()) {
    std::vector<std::string> shown;
    for (const gpu_holder& each : facts.holders) {
      if (shown.size() == holders_shown) break;
      shown.push_back(fmt::format("{} {} ({})", each.process, each.program, each.user));
    }
    const std::size_t more = facts.holders.size() - shown.size();
    found.push_back({"GPU users", health::warning,
                     fmt::format("{}{}", fmt::join(shown, ", "),
                                 more == 0 ? "" : fmt::format(" and {} more", more)),
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
