#include "launcher/cli/gpu_list.hpp"

#include "launcher/base/text.hpp"
#include "rendezvous/base/counted.hpp"

#include <algorithm>

namespace ddprun::launcher {
namespace {

constexpr std::uint32_t gpu_number_max = 4095;
constexpr const char* cuda_variable = "CUDA_VISIBLE_DEVICES";
constexpr const char* hip_variable = "HIP_VISIBLE_DEVICES";

std::vector<std::string> devices_in(std::string_view list) {
  std::vector<std::string> devices;
  for (const std::string_view device : split(list, ','))
    devices.emplace_back(trimmed(device));
  return devices;
}

std::optional<std::uint32_t> read_number(std::string_view text) {
  const auto number = whole_number<std::uint32_t>(text);
  return number && *number <= gpu_number_max ? number : std::nullopt;
}

std::string words_of(const std::vector<std::uint32_t>& gpus) {
  std::string text = "--gpus=";
  for (const std::uint32_t gpu : gpus)
    text += (text.back() == '=' ? "" : ",") + std::to_string(gpu);
  return text;
}

}  // namespace

cli::parsed<std::vector<std::uint32_t>> read_gpu_list(std::string_view given,
                                                      std::string_view value) {
  const auto no = [&](const std::string& why) {
    return cli::usage_error{std::string(given) + ": " + why};
  };
  std::vector<std::uint32_t> gpus;
  for (const std::string& part : devices_in(value)) {
    const std::size_t dash = part.find('-');
    const auto first = read_number(std::string_view(part).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : read_number(std::string_view(part).substr(dash + 1));
    if (!first || !last) return no("write the numbers of GPUs as 2,4,7 or 0-3");
    if (*last < *first) {
      return no(part + " ends before it begins; write " + std::to_string(*last) + "-" +
                std::to_string(*first));
    }
    for (std::uint32_t gpu = *first; gpu <= *last; ++gpu) {
      if (std::find(gpus.begin(), gpus.end(), gpu) != gpus.end()) {
        return no("GPU " + std::to_string(gpu) + " is given twice; name each once");
      }
      gpus.push_back(gpu);
    }
  }
  return gpus;
}

cli::checked show_gpus(environment_map& variables, const std::vector<std::uint32_t>& gpus,
                       std::uint32_t present) {
  const auto outer = find_visible_list(variables);
  std::string devices;
  for (const std::uint32_t gpu : gpus) {
    const std::size_t count = outer ? outer->devices.size() : present;
    const bool is_known = outer || present > 0;
    if (is_known && gpu >= count) {
      const std::string of_list = outer ? std::string(" in ") + outer->variable + "=" +
                                              *find_variable(variables, outer->variable)
                                        : " on this node";
      const std::string range =
          count == 0   ? "no GPU is visible"
          : count == 1 ? "the only one is GPU 0"
                       : counted(count, "GPU") + " are visible, 0 to " + std::to_string(count - 1);
      return cli::usage_error{words_of(gpus) + ": there is no GPU " + std::to_string(gpu) +
                              of_list + ": " + range};
    }
    devices += (devices.empty() ? "" : ",") + (outer ? outer->devices[gpu] : std::to_string(gpu));
  }
  set_visible_list(variables, devices);
  return {};
}

std::optional<visible_list> find_visible_list(const environment_map& variables) {
  const std::string* const hip = find_variable(variables, hip_variable);
  if (hip != nullptr && !hip->empty()) return visible_list{hip_variable, devices_in(*hip)};
  const std::string* const cuda = find_variable(variables, cuda_variable);
  if (cuda == nullptr) return std::nullopt;
  return visible_list{cuda_variable,
                      cuda->empty() ? std::vector<std::string>() : devices_in(*cuda)};
}

void set_visible_list(environment_map& variables, const std::string& devices) {
  const std::string* const hip = find_variable(variables, hip_variable);
  if (hip != nullptr && !hip->empty()) variables.insert_or_assign(hip_variable, devices);
  variables.insert_or_assign(cuda_variable, devices);
}

}  // namespace ddprun::launcher
