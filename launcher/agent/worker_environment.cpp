#include "launcher/agent/worker_environment.hpp"

#include "launcher/cli/placeholders.hpp"
#include "launcher/cli/virtual_local_rank.hpp"
#include "launcher/hosts/mpi/worker_variables.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace ddprun::launcher {
namespace {

constexpr std::string_view free_port_name = "free_port";

// The script's own name is its first argument, as with torchrun.
constexpr std::string_view run_path_program =
    "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name=\"__main__\")";

std::vector<placeholder> placeholders(const worker_round& round, std::uint32_t local_rank,
                                      std::uint16_t free_port) {
  const assignment& assigned = round.assignment;
  return {
      {"rank", std::to_string(assigned.rank_first + local_rank)},
      {"local_rank", std::to_string(local_rank)},
      {"group_rank", std::to_string(assigned.group_rank)},
      {"world_size", std::to_string(assigned.world_size)},
      {"nnodes", std::to_string(assigned.group_world_size)},
      {"master_addr", assigned.master_address},
      {"master_port", std::to_string(assigned.master_port)},
      {"master_url", master_url(assigned)},
      {free_port_name, std::to_string(free_port)},
  };
}

bool chooses_threads(std::uint32_t worker_count, const environment_map& inherited) {
  return worker_count > 1 && find_variable(inherited, "OMP_NUM_THREADS") == nullptr;
}

// By then a node has heard that another was lost, and has told its workers.
std::string survivors_patience(const timers& timing) {
  const duration told_after = timing.node_timeout + timing.stop_grace;
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(told_after).count());
}

// Never the agent's own variables, which belong to another round.
void set_nccl_ids(environment_map& variables, const nccl_round_ids& nccl) {
  variables.erase("DDPRUN_NCCL_IDS");
  variables.erase("DDPRUN_NCCL_VERSION");
  if (nccl.count == 0) return;
  const bool are_in_store = nccl.count > nccl.first.size();
  variables.insert_or_assign("DDPRUN_NCCL_IDS", are_in_store ? "store:" + std::string(nccl_ids_key)
                                                             : nccl_ids_text(nccl.first));
  variables.insert_or_assign("DDPRUN_NCCL_VERSION", std::to_string(nccl.version));
}

}  // namespace

environment_map worker_environment(const launch_options& options, const worker_round& round,
                                   std::uint32_t local_rank, const environment_map& inherited) {
  const assignment& assigned = round.assignment;
  environment_map variables = inherited;
  const auto set = [&](std::string_view name, std::string value) {
    variables.insert_or_assign(std::string(name), std::move(value));
  };
  const auto number = [](auto value) { return std::to_string(value); };
  const role_ranks in_role =
      assigned.in_role.value_or(role_ranks{assigned.rank_first, assigned.world_size});

  set("RANK", number(assigned.rank_first + local_rank));
  set("LOCAL_RANK", number(local_rank));
  set("GROUP_RANK", number(assigned.group_rank));
  set("ROLE_RANK", number(in_role.rank_first + local_rank));
  set("ROLE_NAME", options.role);
  set("WORLD_SIZE", number(assigned.world_size));
  set("LOCAL_WORLD_SIZE", number(round.worker_count));
  set("GROUP_WORLD_SIZE", number(assigned.group_world_size));
  set("ROLE_WORLD_SIZE", number(in_role.world_size));
  set("MASTER_ADDR", assigned.master_address);
  set("MASTER_PORT", number(assigned.master_port));
  set("TORCHELASTIC_RESTART_COUNT", number(round.restarts_used));
  set("TORCHELASTIC_MAX_RESTARTS", number(options.settings.restarts_max));
  set("TORCHELASTIC_RUN_ID", round.run_id);
  // PyTorch compares with exactly "True".
  const bool agent_store = options.settings.store == store_mode::agent;
  set("TORCHELASTIC_USE_AGENT_STORE", agent_store ? "True" : "False");
  // Empty as with torchrun's --log-dir=/dev/null. Never the inherited one, which is another run's.
  set("TORCHELASTIC_ERROR_FILE", round.error_files.empty() ? "" : round.error_files.at(local_rank));

  set("DDPRUN_RUN_ID", round.run_id);
  set("DDPRUN_INSTANCE", to_hex(round.instance));
  set("DDPRUN_ROUND", number(round.round));
  set("DDPRUN_NODE_ID", round.node);
  set_nccl_ids(variables, round.nccl);
  set(std::string(session_variable), round.mark);

  if (!round.vault.empty()) set("DDPRUN_VAULT", round.vault);
  // Never the variables of an agent that has started this one.
  variables.erase("DDPRUN_SURVIVORS");
  variables.erase("DDPRUN_SURVIVORS_PATIENCE");
  if (!round.survivors.empty()) {
    set("DDPRUN_SURVIVORS", round.survivors);
    set("DDPRUN_SURVIVORS_PATIENCE", survivors_patience(options.settings.timing));
  }
  variables.erase("DDPRUN_PROGRESS");
  variables.erase("DDPRUN_STOP");
  if (!round.stop_file.empty()) set("DDPRUN_STOP", round.stop_file);
  if (!round.progress_files.empty()) set("DDPRUN_PROGRESS", round.progress_files.at(local_rank));

  // The user may have set these.
  variables.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (!round.gloo_interface.empty()) {
    variables.try_emplace(std::string(gloo_interface_variable), round.gloo_interface);
  }
  // With it Gloo asks for all addresses at once: 6 requests per rank instead of 4 + 3 * world size.
  variables.try_emplace("GLOO_ENABLE_STORE_V2_API", "1");
  if (chooses_threads(round.worker_count, inherited)) set("OMP_NUM_THREADS", "1");
  if (options.mpi_env) {
    hosts::mpi::set_mpi_variables(variables, {assigned.rank_first + local_rank, assigned.world_size,
                                              local_rank, round.worker_count});
  }
  if (options.virtual_local_rank) set_own_gpu(variables, local_rank);
  return variables;
}

std::string thread_count_note(std::uint32_t worker_count, const environment_map& inherited) {
  if (!chooses_threads(worker_count, inherited)) return {};
  return "OMP_NUM_THREADS is not set: " + std::to_string(worker_count) +
         " workers share this node, so each gets OMP_NUM_THREADS=1; set it to use more";
}

std::vector<std::string> worker_command_line(const launch_options& options,
                                             const worker_round& round, std::uint32_t local_rank,
                                             std::uint16_t free_port) {
  std::vector<std::string> command;
  const std::string number = std::to_string(local_rank);
  if (options.run_path) {
    command = {options.python, "-u", "-c", std::string(run_path_program),
               fill_in(options.program, {}, number)};
  } else if (options.no_python) {
    command.push_back(options.program);
  } else {
    command = {options.python, "-u"};
    if (options.module) command.emplace_back("-m");
    // torchrun treats the script's name as an argument of Python, and so fills in placeholders.
    command.push_back(fill_in(options.program, {}, number));
  }
  std::vector<placeholder> values;
  if (options.placeholders == placeholder_mode::on) {
    values = placeholders(round, local_rank, free_port);
  }
  if (options.pass_local_rank) command.push_back("--local-rank=" + number);
  for (const std::string& argument : options.arguments)
    command.push_back(fill_in(argument, values, number));
  return command;
}

std::string worker_line_prefix(const launch_options& options, const worker_round& round,
                               std::uint32_t local_rank, const std::string& host_name) {
  const assignment& assigned = round.assignment;
  const std::string rank = std::to_string(assigned.rank_first + local_rank);
  const std::string& chosen = options.output.prefix_template;
  if (chosen.empty() && assigned.world_size == 1) return {};
  // The tag of the host's launcher already names the node.
  if (chosen.empty() && options.output.is_tagged)
    return round.worker_count == 1 ? std::string() : "[" + rank + "] ";
  if (chosen.empty()) return "[" + round.node + ":" + rank + "] ";
  if (chosen == no_prefix) return {};
  return fill_template(chosen, {{"role_name", options.role},
                                {"local_rank", std::to_string(local_rank)},
                                {"rank", rank},
                                {"hostname", host_name},
                                {"node", round.node},
                                {"group_rank", std::to_string(assigned.group_rank)},
                                {"world_size", std::to_string(assigned.world_size)},
                                {"round", std::to_string(round.round)}});
}

std::string survivors_address(const launch_options& options, const std::string& mark) {
  return options.keeps_survivors ? "ddprun-survivors-" + mark : std::string();
}

bool wants_free_port(const launch_options& options) {
  if (options.placeholders != placeholder_mode::on) return false;
  return std::any_of(
      options.arguments.begin(), options.arguments.end(),
      [](const std::string& text) { return text.find("{free_port}") != std::string::npos; });
}

std::string master_url(const assignment& assigned) {
  return "tcp://" + to_text(cli::endpoint_address{assigned.master_address, assigned.master_port});
}

}  // namespace ddprun::launcher
