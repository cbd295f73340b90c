// A ddprun that a worker starts is none of the engine's nodes.
#include "launcher/hosts/engines.hpp"

#include "tests/support/catch.hpp"

namespace ddprun::launcher::hosts {
namespace {

bool is_placed(const environment_map& environment) {
  return !std::holds_alternative<std::monostate>(find_placement(environment));
}

const environment_map step = {{"SLURM_JOB_ID", "12"},
                              {"SLURM_STEP_ID", "0"},
                              {"SLURM_STEP_NODELIST", "n[1-2]"},
                              {"SLURM_STEP_NUM_NODES", "2"},
                              {"SLURM_STEP_NUM_TASKS", "2"},
                              {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                              {"SLURM_NODEID", "1"},
                              {"SLURM_PROCID", "1"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURMD_NODENAME", "n2"}};

}  // namespace

TEST_CASE("a worker's own ddprun is not one more node of the step") {
  environment_map environment = step;
  CHECK(is_placed(environment));
  mark_task(environment);  // as workers have it
  CHECK_FALSE(is_placed(environment));
  environment["SLURM_STEP_ID"] = "1";  // of an srun that the worker has started
  CHECK(is_placed(environment));
}

TEST_CASE("which engines start each agent of a job once") {
  CHECK(starts_each_once(step));
  CHECK(starts_each_once({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}));
  CHECK(starts_each_once({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}}));
  CHECK(starts_each_once({{"FLUX_TASK_RANK", "1"}, {"FLUX_JOB_SIZE", "2"}}));
  // A batch script, a user's shell, or a pod may start ddprun again.
  CHECK_FALSE(starts_each_once({{"SLURM_JOB_ID", "12"}}));
  CHECK_FALSE(starts_each_once({{"JOB_COMPLETION_INDEX", "0"}}));
  CHECK_FALSE(starts_each_once({{"PATH", "/bin"}}));
}

TEST_CASE("where no engine is, workers get no further variable") {
  environment_map environment = {{"PATH", "/bin"}};
  mark_task(environment);
  CHECK(environment.size() == 1);
  CHECK_FALSE(is_placed(environment));
}

}  // namespace ddprun::launcher::hosts
