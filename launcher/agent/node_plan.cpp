#include "launcher/agent/node_plan.hpp"

#include "launcher/agent/network_choice.hpp"
#include "launcher/agent/numa_binding.hpp"
#include "launcher/agent/worker_environment.hpp"
#include "launcher/cli/gpu_list.hpp"
#include "launcher/cli/virtual_local_rank.hpp"
#include "launcher/cli/worker_count.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/net/resolve.hpp"

#include <utility>

namespace ddprun::launcher {
namespace {

cli::checked plan_network(const launch_options& options, node_plan& plan) {
  if (options.networks.empty()) return {};
  network_wish wish;
  wish.networks = options.networks;
  wish.address = options.local_address;
  // The leader of a static rendezvous is known by what all have typed.
  wish.is_fixed = options.is_static && !options.local_address.empty();
  const auto endpoint = net::numeric_address(options.endpoint.host);
  wish.likes_ipv6 = endpoint && endpoint->is_v6();
  const auto choice = choose_network(wish, own_addresses_by_interface());
  if (!choice) return choice.error();
  // One node alone stays on loopback: there is nobody to be reached by.
  if (options.settings.nodes_max > 1) plan.address = choice->address;
  // NCCL takes any interface that begins so, without the sign.
  plan.environment.try_emplace("NCCL_SOCKET_IFNAME", "=" + choice->interface);
  plan.environment.try_emplace(std::string(gloo_interface_variable), choice->interface);
  return {};
}

cli::checked plan_workers(const launch_options& options, node_plan& plan) {
  processor_counts counts = count_processors(plan.environment);
  if (!options.gpus.empty()) {
    const processor_counts all = count_processors({});
    if (auto wrong = show_gpus(plan.environment, options.gpus, all.gpus)) return wrong;
    counts.gpus = static_cast<std::uint32_t>(options.gpus.size());
  }
  const auto workers = count_workers(options.workers, counts);
  if (!workers) return workers.error();
  plan.workers = *workers;
  plan.visible_gpus = counts.gpus;
  if (!options.gpus.empty() && plan.workers > options.gpus.size()) {
    return cli::usage_error{"--gpus names " + counted(options.gpus.size(), "GPU") +
                            ", and --nproc-per-node asks for " + counted(plan.workers, "worker") +
                            ": start fewer, or name more"};
  }
  if (options.virtual_local_rank) return check_own_gpus(plan.workers, plan.environment);
  return {};
}

cli::checked plan_processors(const launch_options& options, node_plan& plan) {
  if (options.numa == numa_mode::off) return {};
  const numa_topology topology = read_numa_topology("/", allowed_processors(), plan.environment);
  auto bound = bind_workers(options.numa, plan.workers, topology);
  if (!bound) return bound.error();
  plan.processors = std::move(*bound);
  if (topology.gpus.empty() && topology.nodes.size() > 1) {
    plan.notes.push_back("--numa-binding: no GPU's place is known here, so workers take the " +
                         counted(topology.nodes.size(), "NUMA node") + " in turn");
  }
  return {};
}

}  // namespace

cli::parsed<node_plan> plan_node(const launch_options& options, const environment_map& inherited) {
  node_plan plan;
  plan.environment = inherited;
  plan.address = options.local_address;
  for (const auto& step : {plan_workers, plan_network, plan_processors}) {
    if (const cli::checked wrong = step(options, plan)) return *wrong;
  }
  return plan;
}

}  // namespace ddprun::launcher
