#include "launcher/hosts/doctor/start_check.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/base/text.hpp"
#include "launcher/cli/check_files.hpp"
#include "launcher/hosts/doctor/limits.hpp"
#include "launcher/hosts/doctor/network_facts.hpp"
#include "launcher/process/find_program.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace ddprun::launcher::doctor {
namespace {

namespace fs = std::filesystem;

// The oldest driver for CUDA 11, 12 and 13, whatever the minor version.
struct needed_driver {
  int cuda;
  int driver;
};
constexpr needed_driver needed_drivers[] = {{11, 450}, {12, 525}, {13, 580}};

constexpr std::string_view always[] = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "shared memory",
                                       "open files",         "processes",          "locked memory"};

// The doctor's findings that matter to every job and cost nothing to look for.
bool is_for_a_start(const finding& each) {
  if (each.state == health::ok) return false;
  return std::find(std::begin(always), std::end(always), each.check) != std::end(always) ||
         (each.check == "disk" && each.state == health::error);
}

}  // namespace

std::string driver_in(const std::string& line) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const bool is_version = word.find_first_not_of("0123456789.") == std::string::npos;
    if (is_version && word.find('.') != std::string::npos) return word;
  }
  return {};
}

std::string torch_beside(const fs::path& python) {
  const fs::path libraries = python.parent_path().parent_path() / "lib";
  for (const std::string& name : names_in(libraries)) {
    if (!name.starts_with("python3")) continue;
    std::ifstream lines(libraries / name / "site-packages/torch/version.py");
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("__version__")) continue;
      const std::size_t begin = line.find_first_of("'\"");
      const std::size_t end = line.find_last_of("'\"");
      if (begin < end) return line.substr(begin + 1, end - begin - 1);
    }
  }
  return {};
}

findings judge_driver(const std::string& driver, const std::string& torch) {
  const std::size_t at = torch.find("+cu");
  if (driver.empty() || at == std::string::npos) return {};
  const int cuda = leading_number<int>(torch.substr(at + 3)).value_or(0) / 10;
  for (const needed_driver& each : needed_drivers) {
    if (each.cuda != cuda || leading_number<int>(driver).value_or(0) >= each.driver) continue;
    const std::string wanted = std::to_string(each.driver);
    return {{"driver", health::warning,
             "PyTorch " + torch + " needs NVIDIA's driver " + wanted + " or newer, and " + driver +
                 " is loaded",
             "install that, or a PyTorch that is built for an older CUDA"}};
  }
  return {};
}

findings check_room(const fs::path& root, const environment_map& environment) {
  limit_facts facts = read_limits(root, environment, duration::zero());
  // If no state folder is usable, an embedded daemon reports that itself, and many jobs have none.
  std::erase_if(facts.folders, [](const folder_room& room) { return !room.problem.empty(); });
  return judge_limits(facts);
}

findings check_start(const fs::path& root, const environment_map& environment) {
  network_facts network;
  network.addresses = own_addresses_by_interface();
  findings all = judge_network(network, environment, 0);
  const findings limits = check_room(root, environment);
  all.insert(all.end(), limits.begin(), limits.end());
  findings found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found), is_for_a_start);
  const std::string driver =
      driver_in(first_line(root / "proc/driver/nvidia/version").value_or(""));
  if (driver.empty()) return found;
  const auto python = find_program(python_program(environment), to_entries(environment));
  const findings more = judge_driver(driver, python ? torch_beside(*python) : "");
  found.insert(found.end(), more.begin(), more.end());
  return found;
}

start_look::start_look(duration limit, const fs::path& root, const environment_map& environment)
    : task_(limit, [root, environment]() -> findings {
        try {
          return check_start(root, environment);
        } catch (const std::exception&) {
          return {};  // the check only helps, so it must not disturb
        }
      }) {}

std::optional<std::vector<std::string>> start_look::take(bool waits) {
  const auto found = task_.take(waits);
  std::vector<std::string> lines;
  if (!found) return task_.is_over() ? std::optional(lines) : std::nullopt;
  for (const finding& each : *found)
    lines.push_back(each.check + ": " + each.seen +
                    (each.advice.empty() ? "" : ": " + each.advice));
  return lines;
}

}  // namespace ddprun::launcher::doctor
