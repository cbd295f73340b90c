#include "launcher/hosts/slurm/step.hpp"

#include "launcher/base/text.hpp"
#include "launcher/hosts/slurm/node_list.hpp"

#include <algorithm>

namespace ddprun::launcher::slurm {
namespace {

// SLURM_BATCH_SCRIPT, _EXTERN_CONT, _INTERACTIVE_STEP and similar start here.
constexpr std::uint64_t first_special_step = 0xffff'fff0;

template <typename Number>
std::optional<Number> variable_number(const environment_map& environment, std::string_view name) {
  return whole_number<Number>(variable_or_empty(environment, name));
}

// "NAME=value", as a user would write it.
std::string words_of(const environment_map& environment, std::string_view name) {
  return std::string(name) + "=" + variable_or_empty(environment, name);
}

std::uint32_t count_words(std::string_view list) {
  return list.empty() ? 0
                      : 1 + static_cast<std::uint32_t>(std::count(list.begin(), list.end(), ','));
}

// The smaller of the counts: --gpu-bind gives a task fewer than its node has.
std::optional<std::uint32_t> gpus_in(const environment_map& environment) {
  auto count = variable_number<std::uint32_t>(environment, "SLURM_GPUS_ON_NODE");
  if (!count) count = count_words(variable_or_empty(environment, "SLURM_STEP_GPUS"));
  if (*count == 0) return {};
  const std::uint32_t visible = count_words(variable_or_empty(environment, "CUDA_VISIBLE_DEVICES"));
  return visible == 0 ? *count : std::min(*count, visible);
}

// Finds an address in "n1:10.0.0.1:host1,n2:[fd00::2]:host2", which cloud nodes have because their
// names may not resolve.
std::string alias_address(std::string_view aliases, std::string_view node) {
  while (!aliases.empty()) {
    std::size_t end = aliases.find(',');
    if (end == std::string_view::npos) end = aliases.size();
    std::string_view one = aliases.substr(0, end);
    aliases.remove_prefix(std::min(end + 1, aliases.size()));
    if (!one.starts_with(node) || one.substr(node.size()).substr(0, 1) != ":") continue;
    one.remove_prefix(node.size() + 1);
    const bool is_bracketed = one.starts_with('[');
    if (is_bracketed) one.remove_prefix(1);
    return std::string(one.substr(0, one.find(is_bracketed ? ']' : ':')));
  }
  return {};
}

bool is_special_step(std::string_view daemon) {
  const std::size_t open = daemon.find('[');
  const std::size_t point = daemon.find('.', open);
  if (open == std::string_view::npos || point == std::string_view::npos) return false;
  const std::string_view step = daemon.substr(point + 1, daemon.find(']', point) - point - 1);
  return step == "batch" || step == "interactive" || step.starts_with("42949672");
}

origin origin_of(const environment_map& environment, std::string_view step_daemon) {
  if (!find_variable(environment, "SLURM_PROCID")) return origin::allocation;
  const auto number = variable_number<std::uint64_t>(environment, "SLURM_STEP_ID");
  const bool is_step = number && *number < first_special_step && !is_special_step(step_daemon);
  return is_step ? origin::step : origin::batch;
}

// Sorted by node rank.
cli::parsed<std::vector<std::string>> nodes_in(const environment_map& environment,
                                               std::string_view name) {
  auto nodes = expand_node_list(variable_or_empty(environment, name));
  if (!nodes || nodes->empty()) {
    return cli::usage_error{words_of(environment, name) +
                            " is not a Slurm list; say where the nodes meet with "
                            "--rdzv-endpoint, or --standalone"};
  }
  std::sort(nodes->begin(), nodes->end(), is_before);
  return *nodes;
}

// By name, because SLURM_NODEID counts in the order of Slurm's own list.
cli::parsed<std::uint32_t> rank_in(const std::vector<std::string>& nodes,
                                   const environment_map& environment) {
  const std::string own = variable_or_empty(environment, "SLURMD_NODENAME");
  const auto found = std::find(nodes.begin(), nodes.end(), own);
  if (found != nodes.end()) return static_cast<std::uint32_t>(found - nodes.begin());
  return cli::usage_error{words_of(environment, "SLURMD_NODENAME") + " is not in " +
                          words_of(environment, "SLURM_STEP_NODELIST") +
                          ": these are the variables of a step on other nodes; unset them, or say "
                          "where the nodes meet with --rdzv-endpoint"};
}

cli::parsed<std::uint32_t> tasks_on_node_max(const environment_map& environment,
                                             std::size_t nodes) {
  constexpr std::string_view name = "SLURM_STEP_TASKS_PER_NODE";
  if (!find_variable(environment, name)) {
    const auto tasks = variable_number<std::uint32_t>(environment, "SLURM_STEP_NUM_TASKS");
    const auto count = static_cast<std::uint32_t>(nodes);
    return (tasks.value_or(count) + count - 1) / count;
  }
  const auto counts = expand_counts(variable_or_empty(environment, name));
  if (!counts || counts->size() != nodes) {
    return cli::usage_error{words_of(environment, name) + " does not belong to " +
                            words_of(environment, "SLURM_STEP_NODELIST") +
                            ", which has another number of nodes; say where the nodes meet with "
                            "--rdzv-endpoint, or --standalone"};
  }
  return *std::max_element(counts->begin(), counts->end());
}

std::string array_task_in(const environment_map& environment) {
  const std::string array = variable_or_empty(environment, "SLURM_ARRAY_JOB_ID");
  const std::string task = variable_or_empty(environment, "SLURM_ARRAY_TASK_ID");
  return array.empty() || task.empty() ? std::string() : array + "_" + task;
}

}  // namespace

std::string step::name() const {
  std::string text = "Slurm job " + std::to_string(job);
  if (from == origin::step)
    text = "Slurm step " + std::to_string(job) + "." + std::to_string(number);
  return array_task.empty() ? text : text + " (array task " + array_task + ")";
}

// A requeued job keeps its number, and its steps are counted from 0 again.
std::string step::run_id() const {
  std::string text = "slurm-" + std::to_string(job);
  if (from == origin::step) text += "." + std::to_string(number);
  return restarts == 0 ? text : text + "-requeue-" + std::to_string(restarts);
}

cli::parsed<std::optional<step>> read_step(const environment_map& environment,
                                           std::string_view step_daemon) {
  const auto job = variable_number<std::uint64_t>(environment, "SLURM_JOB_ID");
  if (!job) return std::optional<step>();
  step found;
  found.from = origin_of(environment, step_daemon);
  found.job = *job;
  found.array_task = array_task_in(environment);
  found.restarts = variable_number<std::uint32_t>(environment, "SLURM_RESTART_COUNT").value_or(0);
  const bool is_step = found.from == origin::step;
  auto nodes = nodes_in(environment, is_step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST");
  if (!nodes) return nodes.error();
  found.nodes = std::move(*nodes);
  if (found.from != origin::allocation) {
    found.gpus = gpus_in(environment);
    found.cpus = variable_number<std::uint32_t>(environment, "SLURM_CPUS_ON_NODE");
  }
  if (!is_step) return std::optional<step>(std::move(found));

  found.number = variable_number<std::uint64_t>(environment, "SLURM_STEP_ID").value_or(0);
  found.task = variable_number<std::uint32_t>(environment, "SLURM_PROCID").value_or(0);
  const auto rank = rank_in(found.nodes, environment);
  if (!rank) return rank.error();
  found.node_rank = *rank;
  const auto tasks = tasks_on_node_max(environment, found.nodes.size());
  if (!tasks) return tasks.error();
  found.tasks_on_node_max = *tasks;
  found.first_address =
      alias_address(variable_or_empty(environment, "SLURM_NODE_ALIASES"), found.nodes.front());
  return std::optional<step>(std::move(found));
}

}  // namespace ddprun::launcher::slurm
