#include "launcher/agent/rank_variables.hpp"

namespace ddprun::launcher {

worker_round round_of_number(std::uint32_t number, std::uint32_t worker_count) {
  worker_round round;
  const std::string text = std::to_string(number);
  round.instance = number;
  round.round = number;
  round.restarts_used = number;
  round.worker_count = worker_count;
  round.node = "node";
  round.run_id = "run";
  round.mark = "mark";
  round.gloo_interface = "net" + text;
  round.vault = "vault" + text;
  round.error_files.assign(2, "error" + text);
  round.progress_files = {"progress0" + text, "progress1" + text};
  round.stop_file = "stop" + text;
  round.assignment.group_rank = number;
  round.assignment.rank_first = number;
  round.assignment.world_size = number;
  round.assignment.group_world_size = number;
  round.assignment.master_address = "address" + text;
  round.assignment.master_port = static_cast<std::uint16_t>(number);
  round.nccl.count = 1;
  round.nccl.version = number;
  round.nccl.first = {text};
  return round;
}

std::vector<std::string> rank_variables(const launch_options& options, std::uint32_t worker_count,
                                        const environment_map& inherited) {
  environment_map one =
      worker_environment(options, round_of_number(10, worker_count), 0, inherited);
  const environment_map other = worker_environment(options, round_of_number(20, worker_count),
                                                   worker_count > 1 ? 1 : 0, inherited);
  std::vector<std::string> names;
  for (const auto& [name, value] : other) {
    const std::string* const same = find_variable(one, name);
    if (same == nullptr || *same != value) names.push_back(name);
    one.erase(name);
  }
  for (const auto& [name, value] : one)
    names.push_back(name);
  return names;
}

}  // namespace ddprun::launcher
