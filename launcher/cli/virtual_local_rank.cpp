#include "launcher/cli/virtual_local_rank.hpp"

#include "rendezvous/base/error.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {
namespace {

struct visible_list {
  const char* variable;
  std::vector<std::string> devices;
};

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> devices;
  for (;;) {
    const std::size_t comma = list.find(',');
    std::string_view device = list.substr(0, comma);
    while (!device.empty() && device.front() == ' ')
      device.remove_prefix(1);
    while (!device.empty() && device.back() == ' ')
      device.remove_suffix(1);
    devices.emplace_back(device);
    if (comma == std::string_view::npos) return devices;
    list.remove_prefix(comma + 1);
  }
}

std::optional<visible_list> list_in(const environment_map& variables) {
  const std::string* const hip = find_variable(variables, "HIP_VISIBLE_DEVICES");
  if (hip != nullptr && !hip->empty()) return visible_list{"HIP_VISIBLE_DEVICES", split(*hip)};
  const std::string* const cuda = find_variable(variables, "CUDA_VISIBLE_DEVICES");
  if (cuda == nullptr) return std::nullopt;
  return visible_list{"CUDA_VISIBLE_DEVICES",
                      cuda->empty() ? std::vector<std::string>() : split(*cuda)};
}

}  // namespace

cli::checked check_own_gpus(std::uint32_t workers, const environment_map& inherited) {
  const auto list = list_in(inherited);
  if (!list || workers <= list->devices.size()) return {};
  const std::size_t count = list->devices.size();
  return cli::usage_error{
      "--virtual-local-rank: there are " + std::to_string(workers) + " workers, and " +
      list->variable + "=" + *find_variable(inherited, list->variable) + " names " +
      (count == 0 ? "no GPU" : std::to_string(count) + (count == 1 ? " GPU" : " GPUs")) +
      ": start fewer with --nproc-per-node, or name more"};
}

void set_own_gpu(environment_map& variables, std::uint32_t local_rank) {
  const auto list = list_in(variables);
  DDPRUN_ASSERT(!list || local_rank < list->devices.size());
  const std::string own = list ? list->devices[local_rank] : std::to_string(local_rank);
  variables.insert_or_assign("LOCAL_RANK", "0");
  variables.insert_or_assign("CUDA_VISIBLE_DEVICES", own);
  if (list && std::string_view(list->variable) == "HIP_VISIBLE_DEVICES") {
    variables.insert_or_assign("HIP_VISIBLE_DEVICES", own);
  }
}

}  // namespace ddprun::launcher
