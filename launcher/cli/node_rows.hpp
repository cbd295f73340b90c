// The rows of the option table about the number of workers and what they use of this node: network,
// GPUs, processors; about processes that they leave behind; and about other users' agents.
#pragma once

#include "launcher/cli/gpu_list.hpp"
#include "launcher/cli/option_table.hpp"
#include "rendezvous/cli/values.hpp"

#include <array>
#include <string_view>

namespace ddprun::launcher {

inline cli::checked apply_nproc_per_node(options_draft& draft, const cli::given_option& option) {
  static constexpr cli::typed_word<worker_count_kind> words[] = {
      {"auto", worker_count_kind::automatic},
      {"cpu", worker_count_kind::cpu},
      {"gpu", worker_count_kind::gpu},
      {"xpu", worker_count_kind::xpu}};
  worker_count_request& workers = draft.options.workers;
  workers = {};
  const std::string_view text = cli::without_blanks(option.value);
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
    return cli::keep(workers.number,
                     cli::read_count(option.given, text, "workers", 1, workers_per_node_max));
  }
  return cli::keep(workers.kind, cli::read_word(option.given, option.value, words,
                                                "a number of workers, or auto, cpu, gpu or xpu"));
}

inline cli::checked apply_network(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.networks, read_networks(option.given, option.value));
}

inline cli::checked apply_gpus(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.gpus, read_gpu_list(option.given, option.value));
}

inline cli::checked apply_numa_binding(options_draft& draft, const cli::given_option& option) {
  static constexpr cli::typed_word<numa_mode> words[] = {{"node", numa_mode::node},
                                                         {"socket", numa_mode::socket},
                                                         {"exclusive", numa_mode::exclusive},
                                                         {"core-complex", numa_mode::core_complex}};
  return cli::keep(draft.options.numa, cli::read_word(option.given, option.value, words,
                                                      "node, socket, exclusive or core-complex"));
}

inline cli::checked apply_children_grace(options_draft& draft, const cli::given_option& option) {
  if (option.value == "keep") {
    draft.options.children_grace.reset();
    return {};
  }
  return cli::keep(draft.options.children_grace,
                   cli::read_seconds(option.given, option.value, true));
}

inline cli::checked apply_check(options_draft& draft, const cli::given_option& option) {
  static constexpr cli::typed_word<bool> words[] = {{"auto", true}, {"off", false}};
  return cli::keep(draft.options.checks_node,
                   cli::read_word(option.given, option.value, words, "auto or off"));
}

inline cli::checked apply_warm(options_draft& draft, const cli::given_option& option) {
  const std::string_view text = cli::without_blanks(option.value);
  std::optional<std::uint32_t>& spares = draft.options.warm_spares;
  if (text == "auto") {
    spares.reset();
    return {};
  }
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
    std::uint32_t number = 0;
    const cli::checked wrong =
        cli::keep(number, cli::read_count(option.given, text, "spares", 0, workers_per_node_max));
    if (!wrong) spares = number;
    return wrong;
  }
  if (text != "off") return cli::wrong(option, "write auto, off or a number of spares");
  spares = 0;
  return {};
}

inline cli::checked apply_other_users(options_draft& draft, const cli::given_option&) {
  draft.options.allows_other_users = true;
  return {};
}

inline cli::checked apply_mpi_env(options_draft& draft, const cli::given_option&) {
  draft.options.mpi_env = true;
  return {};
}

inline constexpr std::array node_rows = {
    cli::option<options_draft>{
        {"allow-other-users", "", "Rendezvous",
         "let a daemon in this process accept agents of other users of this\n"
         "host; without it only root's and those of the same user",
         cli::option_owner::ddprun, cli::option_kind::flag},
        apply_other_users},
    cli::option<options_draft>{{"nproc-per-node", "N | auto | cpu | gpu | xpu", "Size",
                                "workers on this node; auto: one per GPU, or per CPU without GPUs\n"
                                "(1; in a Slurm step one per GPU of the step on this node)",
                                cli::option_owner::torchrun},
                               apply_nproc_per_node},
    cli::option<options_draft>{
        {"network", "CIDR | INTERFACE,...", "This node",
         "the network between the nodes, the first of these that this node\n"
         "has (10.0.0.0/8, eth0): its address is published, and set for NCCL\n"
         "and gloo by NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME"},
        apply_network},
    cli::option<options_draft>{{"gpus", "N,N-N,...", "This node",
                                "use only these GPUs, by CUDA_VISIBLE_DEVICES; one worker per GPU\n"
                                "unless --nproc-per-node is given (0,2-3)"},
                               apply_gpus},
    cli::option<options_draft>{
        {"check", "auto | off", "This node",
         "check this node before the first round (wrong interfaces, little\n"
         "shared memory, low limits), and after failures (GPUs, shared memory,\n"
         "disk); off: neither, only --health-check if that is given (auto)"},
        apply_check},
    cli::option<options_draft>{
        {"numa-binding", "node | socket | exclusive | core-complex", "Workers",
         "bind each worker to the CPUs near its GPU: those of the NUMA node,\n"
         "of the socket, an exclusive share of the node's cores, or cores\n"
         "that share a cache; without GPUs the workers take nodes in turn",
         cli::option_owner::torchrun},
        apply_numa_binding},
    cli::option<options_draft>{{"mpi-env", "", "Workers",
                                "also set their ranks as mpirun does, for scripts that read\n"
                                "OMPI_COMM_WORLD_RANK, PMI_RANK, MPI_LOCALRANKID and the like",
                                cli::option_owner::ddprun, cli::option_kind::flag},
                               apply_mpi_env},
    cli::option<options_draft>{
        {"warm", "auto | off | N", "Workers",
         "keep this many spare processes that have already made the script's\n"
         "imports, to run it at a restart; auto: as many as workers (off)"},
        apply_warm},
    cli::option<options_draft>{
        {"children-grace", "SECONDS | keep", "Workers",
         "how long processes that a successful worker leaves behind may run\n"
         "on; keep: without a limit (30)"},
        apply_children_grace},
};

}  // namespace ddprun::launcher
