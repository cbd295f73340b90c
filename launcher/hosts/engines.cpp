#include "launcher/hosts/engines.hpp"

#include "launcher/hosts/kubernetes/pod_placement.hpp"
#include "launcher/hosts/mpi/member.hpp"
#include "launcher/hosts/mpi/mpi_lifeline.hpp"
#include "launcher/hosts/mpi/mpi_placement.hpp"
#include "launcher/hosts/slurm/slurm.hpp"

#include <initializer_list>
#include <string>
#include <utility>

namespace ddprun::launcher::hosts {
namespace {

// One row for each engine; a null function means that it has nothing to do there.
struct engine {
  placement_outcome (*find)(const environment_map&);
  // Returns the engine's process on this node; 0: none.
  int (*settle)(environment_map&, launch_options&, const std::string& placed_by) = nullptr;
  engine_tie (*tie)(int process) = nullptr;
};

int leave_mpi(environment_map& environment, launch_options& options, const std::string&) {
  return mpi::leave_launcher(environment, options);
}

engine_tie tie_to_mpi(int launcher) {
  return std::make_shared<mpi::lifeline>(launcher);
}

int note_contradictions_of_slurm(environment_map& environment, launch_options& options,
                                 const std::string& placed_by) {
  for (std::string& note : slurm::contradictions_here(environment, options, placed_by))
    options.notes.push_back(std::move(note));
  return 0;
}

// The innermost launcher first.
constexpr std::initializer_list<engine> engines = {
    {mpi::find_mpi_placement, leave_mpi, tie_to_mpi},
    {slurm::find, note_contradictions_of_slurm},
    {kubernetes::find_pod_placement},
};

constexpr const char* task_variable = "DDPRUN_TASK";

// Identifies this task or pod; empty if no engine has started anything. A step that a worker starts
// with srun, or a job with sbatch, has another identity.
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

bool starts_each_once(const environment_map& environment) {
  return !variable_or_empty(environment, "SLURM_STEP_ID").empty() || mpi::has_rank(environment);
}

placement_outcome find_placement(const environment_map& environment) {
  const std::string outer = variable_or_empty(environment, task_variable);
  if (!outer.empty() && outer == task_of(environment)) return {};
  for (const engine& each : engines) {
    placement_outcome outcome = each.find(environment);
    if (!std::holds_alternative<std::monostate>(outcome)) return outcome;
  }
  return {};
}

std::function<engine_tie()> settle_with_engines(environment_map& environment,
                                                launch_options& options,
                                                const std::string& placed_by) {
  std::function<engine_tie()> make_tie = [] { return engine_tie(); };
  for (const engine& each : engines) {
    const int process = each.settle ? each.settle(environment, options, placed_by) : 0;
    if (process != 0 && each.tie) make_tie = [each, process] { return each.tie(process); };
  }
  return make_tie;
}

}  // namespace ddprun::launcher::hosts
