#include "launcher/agent/node_plan.hpp"

#include "launcher/agent/worker_environment.hpp"
#include "launcher/cli/gpu_list.hpp"
#include "launcher/cli/virtual_local_rank.hpp"
#include "launcher/cli/worker_count.hpp"
#include "launcher/network/network_choice.hpp"
#include "launcher/network/own_addresses.hpp"
#include "launcher/node/installed_packages.hpp"
#include "launcher/node/numa_binding.hpp"
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
  // The leader of a static rendezvous is at the address that the user has given to all nodes.
  wish.is_fixed = options.is_static && !options.local_address.empty();
  const auto endpoint = net::numeric_address(options.endpoint.host);
  wish.likes_ipv6 = endpoint && endpoint->is_v6();
  const auto choice = choose_network(wish, own_addresses_by_interface());
  if (!choice) return choice.error();
  // A single node stays on loopback, because no other node has to reach it.
  if (options.settings.nodes_max > 1) plan.address = choice->address;
  // Without "=" NCCL takes any interface whose name begins so.
  plan.environment.try_emplace("NCCL_SOCKET_IFNAME", "=" + choice->interface);
  plan.environment.try_emplace(std::string(gloo_interface_variable), choice->interface);
  return {};
}

cli::checked plan_workers(const launch_options& options, node_plan& plan) {
  processor_counts counts = count_processors(plan.environment);
  if (!options.gpus.empty()) {
    const processor_counts all = count_processors({});
    if (all.gpus == 0 && !find_visible_list(plan.environment)) {
      plan.notes.push_back(
          "--gpus: no GPU is visible on this node; workers are told to use those "
          "numbers anyway");
    }
    if (auto wrong = show_gpus(plan.environment, options.gpus, all.gpus)) return wrong;
    counts.gpus = static_cast<std::uint32_t>(options.gpus.size());
  }
  // Only if an XPU is visible, ask Python, which takes time.
  const bool may_be_xpus =
      options.workers.kind == worker_count_kind::automatic && counts.gpus == 0 && counts.xpus > 0;
  const bool is_for_xpu =
      may_be_xpus && installed_torch(plan.environment).find("+xpu") != std::string::npos;
  const auto workers = count_workers(options.workers, counts, is_for_xpu);
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
    plan.notes.push_back("--numa-binding: no GPU's NUMA node is known here, so workers use the " +
                         counted(topology.nodes.size(), "NUMA node") + " in turn");
  }
  return {};
}

// Behind a NAT or a service this is right. Otherwise the address is wrong, or a second node was
// given rank 0, and nothing else would report it.
cli::checked plan_master(const launch_options& options, node_plan& plan) {
  if (!options.is_static || options.node_rank.value_or(1) != 0) return {};
  const auto master = net::numeric_address(options.endpoint.host);
  if (!master || is_own_address(*master)) return {};
  std::string own;
  for (const interface_address& each : own_addresses_by_interface()) {
    if (each.value.is_loopback()) continue;
    own += (own.empty() ? "" : ", ") + each.value.to_string() + " (" + each.interface + ")";
  }
  plan.notes.push_back(
      "this node has --node-rank 0, but the others look for it at " + options.endpoint.host +
      ", which is not one of its addresses" + (own.empty() ? "" : " (" + own + ")") +
      ": that is right behind a NAT or a service; otherwise give this node another "
      "rank, or give all nodes its address as --master-addr");
  return {};
}

}  // namespace

cli::parsed<node_plan> plan_node(const launch_options& options, const environment_map& inherited) {
  node_plan plan;
  plan.environment = inherited;
  plan.address = options.local_address;
  for (const auto& step : {plan_workers, plan_network, plan_processors, plan_master}) {
    if (const cli::checked wrong = step(options, plan)) return *wrong;
  }
  return plan;
}

}  // namespace ddprun::launcher
