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

TEST_CASE("where no engine is, workers get no further variable") {
  environment_map environment = {{"PATH", "/bin"}};
  mark_task(environment);
  CHECK(environment.size() == 1);
  CHECK_FALSE(is_placed(environment));
}

}  // namespace ddprun::launcher::hosts
