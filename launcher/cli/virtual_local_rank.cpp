#include "launcher/cli/virtual_local_rank.hpp"

#include "launcher/cli/gpu_list.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/error.hpp"

#include <string>

namespace ddprun::launcher {

cli::checked check_own_gpus(std::uint32_t workers, const environment_map& inherited) {
  const auto list = find_visible_list(inherited);
  if (!list || workers <= list->devices.size()) return {};
  const std::size_t count = list->devices.size();
  return cli::usage_error{std::string("--virtual-local-rank: there ") +
                          (workers == 1 ? "is " : "are ") + counted(workers, "worker") + ", and " +
                          list->variable + "=" + *find_variable(inherited, list->variable) +
                          " names " + (count == 0 ? "no GPU" : counted(count, "GPU")) +
                          ": start fewer with --nproc-per-node, or name more"};
}

void set_own_gpu(environment_map& variables, std::uint32_t local_rank) {
  const auto list = find_visible_list(variables);
  DDPRUN_ASSERT(!list || local_rank < list->devices.size());
  const std::string own = list ? list->devices[local_rank] : std::to_string(local_rank);
  variables.insert_or_assign("LOCAL_RANK", "0");
  set_visible_list(variables, own);
}

}  // namespace ddprun::launcher
