#include "launcher/hosts/engines.hpp"

#include "launcher/hosts/kubernetes/pod_placement.hpp"
#include "launcher/hosts/mpi/placement.hpp"
#include "launcher/hosts/slurm/slurm.hpp"

#include <initializer_list>
#include <string>
#include <utility>

namespace ddprun::launcher::hosts {
namespace {

using engine = placement_outcome (*)(const environment_map&);

// Innermost first.
constexpr std::initializer_list<engine> engines = {
    mpi::find_mpi_placement,
    slurm::find,
    kubernetes::find_pod_placement,
};

constexpr const char* task_variable = "DDPRUN_TASK";

// What tells this task or pod from any other; empty where no engine has started anything. A step
// that a worker starts by srun, or a job by sbatch, has another one.
std::string task_of(const environment_map& environment) {
  std::string task;
  for (const char* const name : {"SLURM_JOB_ID", "SLURM_STEP_ID", "JOB_COMPLETION_INDEX"}) {
    const std::string value = variable_or_empty(environment, name);
    if (!value.empty()) task += (task.empty() ? "" : " ") + std::string(name) + "=" + value;
  }
  return task;
}

}  // namespace

void mark_task(environment_map& environment) {
  std::string task = task_of(environment);
  if (!task.empty()) environment[task_variable] = std::move(task);
}

placement_outcome find_placement(const environment_map& environment) {
  const std::string outer = variable_or_empty(environment, task_variable);
  if (!outer.empty() && outer == task_of(environment)) return {};
  for (const engine find : engines) {
    placement_outcome outcome = find(environment);
    if (!std::holds_alternative<std::monostate>(outcome)) return outcome;
  }
  return {};
}

}  // namespace ddprun::launcher::hosts
