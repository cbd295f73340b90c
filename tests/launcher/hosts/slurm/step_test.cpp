// The rank of this node in a step, from the variables as Slurm 22.05 sets them.
#include "launcher/hosts/slurm/slurm.hpp"
#include "tests/support/catch.hpp"

namespace ddprun::launcher::slurm {
namespace {

using hosts::placement;
using hosts::placement_outcome;

// srun -N3 --ntasks-per-node=1 --gpus-per-node=2, on its second node.
environment_map second_of_three() {
  return {{"SLURM_JOB_ID", "12"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NODELIST", "n[1-2,10]"},
          {"SLURM_JOB_NODELIST", "n[1-2,10]"},
          {"SLURM_STEP_NUM_NODES", "3"},
          {"SLURM_STEP_NUM_TASKS", "3"},
          {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"},
          {"SLURM_PROCID", "1"},
          {"SLURM_NODEID", "1"},
          {"SLURMD_NODENAME", "n2"},
          {"SLURM_GPUS_ON_NODE", "2"},
          {"SLURM_CPUS_ON_NODE", "8"}};
}

environment_map with(environment_map variables, const environment_map& others) {
  for (const auto& [name, value] : others)
    variables[name] = value;
  return variables;
}

step step_in(const environment_map& variables, std::string_view daemon = {}) {
  const auto found = read_step(variables, daemon);
  if (!found) FAIL(found.error().text);
  REQUIRE(found->has_value());
  return **found;
}

placement placed_in(const environment_map& variables) {
  const placement_outcome outcome = place(step_in(variables));
  if (const auto* wrong = std::get_if<cli::usage_error>(&outcome)) FAIL(wrong->text);
  return std::get<placement>(outcome);
}

std::string error_in(const environment_map& variables, std::string_view daemon = {}) {
  const auto found = read_step(variables, daemon);
  if (!found) return found.error().text;
  const placement_outcome outcome = place(found->value());
  const auto* wrong = std::get_if<cli::usage_error>(&outcome);
  return wrong == nullptr ? "none" : wrong->text;
}

}  // namespace

TEST_CASE("a step says how many nodes there are, which this is, and where they meet") {
  const placement placed = placed_in(second_of_three());
  CHECK(placed.engine == "Slurm step 12.0");
  CHECK(placed.nodes == 3);
  CHECK(placed.node_rank == 1);
  CHECK(placed.meeting_host == "n1");
  CHECK(placed.meeting_port == 61'452);
  CHECK(placed.more_meeting_ports.size() == 3);
  CHECK(placed.run_id == "slurm-12.0");
  CHECK(placed.workers == 2U);
  CHECK(placed.notes.empty());
}

TEST_CASE("outside of Slurm there is no step") {
  CHECK_FALSE(read_step({})->has_value());
  CHECK_FALSE(read_step({{"SLURM_CONF", "/etc/slurm/slurm.conf"}})->has_value());
}

TEST_CASE("ranks go by the numbers in the names, wherever Slurm lists them") {
  environment_map variables =
      with(second_of_three(), {{"SLURM_STEP_NODELIST", "n10,n1,n2"}, {"SLURM_NODEID", "0"}});
  variables["SLURMD_NODENAME"] = "n10";
  CHECK(placed_in(variables).node_rank == 2);
  CHECK(placed_in(variables).meeting_host == "n1");
}

TEST_CASE("a requeued job is another run, and each task of an array is") {
  CHECK(placed_in(with(second_of_three(), {{"SLURM_RESTART_COUNT", "2"}})).run_id ==
        "slurm-12.0-requeue-2");
  const placement task = placed_in(
      with(second_of_three(), {{"SLURM_ARRAY_JOB_ID", "11"}, {"SLURM_ARRAY_TASK_ID", "3"}}));
  CHECK(task.run_id == "slurm-12.0");
  CHECK(task.engine == "Slurm step 12.0 (array task 11_3)");
}

TEST_CASE("steps of one job meet at ports of their own") {
  const placement first = placed_in(second_of_three());
  const placement second = placed_in(with(second_of_three(), {{"SLURM_STEP_ID", "1"}}));
  CHECK(first.meeting_port != second.meeting_port);
  CHECK(first.run_id != second.run_id);
}

TEST_CASE("GPUs are those that Slurm has given, and of them the task's own") {
  environment_map variables = second_of_three();
  CHECK(placed_in(with(variables, {{"CUDA_VISIBLE_DEVICES", "1"}})).workers == 1U);
  CHECK(placed_in(with(variables, {{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}})).workers == 2U);
  CHECK_FALSE(placed_in(with(variables, {{"SLURM_GPUS_ON_NODE", "0"}})).workers);
  variables.erase("SLURM_GPUS_ON_NODE");
  CHECK_FALSE(placed_in(variables).workers);
  CHECK(placed_in(with(variables, {{"SLURM_STEP_GPUS", "4,5,6"}})).workers == 3U);
}

TEST_CASE("fewer processors than workers are named") {
  const placement placed = placed_in(with(second_of_three(), {{"SLURM_CPUS_ON_NODE", "1"}}));
  REQUIRE(placed.notes.size() == 1);
  CHECK(placed.notes[0] ==
        "Slurm step 12.0 gives this node 1 CPU for 2 workers: srun --cpus-per-task=N, or "
        "--exclusive, gives it more");
}

TEST_CASE("nodes of a cloud are met at the addresses that Slurm knows") {
  const auto host = [](const std::string& aliases) {
    return placed_in(with(second_of_three(), {{"SLURM_NODE_ALIASES", aliases}})).meeting_host;
  };
  CHECK(host("n1:10.0.0.7:ec1,n2:10.0.0.8:ec2") == "10.0.0.7");
  CHECK(host("n10:10.0.0.8:x,n1:[fd00::7]:ec1") == "fd00::7");
  CHECK(host("(null)") == "n1");
  CHECK(host("n1") == "n1");
  CHECK(host(",,:") == "n1");
}

TEST_CASE("several tasks on a node are refused, with the line to write") {
  const environment_map several =
      with(second_of_three(), {{"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}, {"SLURM_PROCID", "0"}});
  CHECK(error_in(several) ==
        "Slurm step 12.0 has 2 tasks on a node, and one ddprun there starts all workers: write "
        "srun --ntasks=3 --ntasks-per-node=1 --gpus-per-node=2 --cpus-per-task=8 ddprun ...");
  environment_map by_number = with(several, {{"SLURM_STEP_NUM_TASKS", "6"}});
  by_number.erase("SLURM_STEP_TASKS_PER_NODE");
  CHECK(error_in(by_number).starts_with("Slurm step 12.0 has 2 tasks on a node"));
}

TEST_CASE("a shell of srun --pty is one person's, however many tasks its step has") {
  step shell = step_in(with(
      second_of_three(),
      {{"SLURM_STEP_TASKS_PER_NODE", "8(x3)"}, {"SLURMD_NODENAME", "n1"}, {"SLURM_PROCID", "0"}}));
  shell.is_shell = true;
  CHECK(std::get<placement>(place(shell)).nodes == 3);
  shell.nodes = {"n1"};
  CHECK(std::holds_alternative<std::monostate>(place(shell)));
}

TEST_CASE("another engine's placement does not contradict the step around it") {
  launch_options options;
  options.settings.nodes_min = options.settings.nodes_max = 3;
  options.node_rank = 0;
  CHECK(contradictions_here(second_of_three(), options, "Slurm step 12.0").size() == 1);
  CHECK(contradictions_here(second_of_three(), options, "").size() == 1);
  CHECK(contradictions_here(second_of_three(), options, "mpirun").empty());
}

TEST_CASE("a batch script is no step: with several nodes it is told to write srun") {
  environment_map batch = {{"SLURM_JOB_ID", "7"},        {"SLURM_JOB_NODELIST", "n[1-2]"},
                           {"SLURM_PROCID", "0"},        {"SLURM_NODEID", "0"},
                           {"SLURM_NTASKS", "1"},        {"SLURMD_NODENAME", "n1"},
                           {"SLURM_CPUS_ON_NODE", "16"}, {"SLURM_GPUS_ON_NODE", "4"}};
  const std::string told =
      "this is the batch script of Slurm job 7, which has 2 nodes; this is not a job step: use "
      "srun ddprun ..., which starts one on each node; --standalone runs on this host alone";
  CHECK(error_in(batch) == told);
  CHECK(error_in(with(batch, {{"SLURM_STEP_ID", "batch"}})) == told);
  CHECK(error_in(with(batch, {{"SLURM_STEP_ID", "4294967291"}})) == told);
  // sbatch was called inside a step, whose variables are still set.
  const environment_map stale =
      with(second_of_three(), {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[1-2]"}});
  CHECK(error_in(stale, "slurmstepd: [7.batch]") == told);
  CHECK(error_in(stale, "slurmstepd: [7.0]") == "none");

  const placement one = placed_in(with(batch, {{"SLURM_JOB_NODELIST", "n1"}}));
  CHECK(one.nodes == 1);
  CHECK(one.workers == 4U);
  CHECK(one.run_id == "slurm-7");
  CHECK(one.notes.empty());
}

TEST_CASE("a shell of salloc is no step either") {
  const environment_map shell = {{"SLURM_JOB_ID", "9"}, {"SLURM_JOB_NODELIST", "n[1-2]"}};
  CHECK(error_in(shell).starts_with("this is a shell of Slurm job 9, which has 2 nodes"));
  const placement one = placed_in(with(shell, {{"SLURM_JOB_NODELIST", "n1"}}));
  REQUIRE(one.notes.size() == 1);
  CHECK(one.notes[0].starts_with("this is a shell of Slurm job 9 on n1; this is not a job step"));
}

TEST_CASE("variables that cannot be true are named") {
  CHECK(error_in(with(second_of_three(), {{"SLURM_STEP_NODELIST", "n[1-"}}))
            .starts_with("SLURM_STEP_NODELIST=n[1- is not a Slurm list"));
  CHECK(error_in(with(second_of_three(), {{"SLURM_STEP_NODELIST", ""}}))
            .starts_with("SLURM_STEP_NODELIST= is not a Slurm list"));
  CHECK(error_in(with(second_of_three(), {{"SLURMD_NODENAME", "n7"}}))
            .starts_with("SLURMD_NODENAME=n7 is not in SLURM_STEP_NODELIST=n[1-2,10]: "));
  CHECK(error_in(with(second_of_three(), {{"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}}))
            .starts_with("SLURM_STEP_TASKS_PER_NODE=1(x2) does not belong to "
                         "SLURM_STEP_NODELIST=n[1-2,10]"));
}

TEST_CASE("flags that contradict the step are named, by the node that they concern") {
  const step second = step_in(second_of_three());
  const step first =
      step_in(with(second_of_three(), {{"SLURMD_NODENAME", "n1"}, {"SLURM_PROCID", "0"}}));
  launch_options options;
  options.settings.nodes_min = options.settings.nodes_max = 3;
  options.workers.number = 2;
  options.node_rank = 0;
  CHECK(contradictions(first, options).empty());
  // The batch script's own shell has set SLURM_NODEID for all nodes.
  CHECK(contradictions(second, options) ==
        std::vector<std::string>{
            "--node-rank says 0, and this is node 1 of Slurm step 12.0; if the shell of the "
            "batch script has expanded a variable of srun's, leave the option out"});
  options.node_rank.reset();
  options.settings.nodes_min = options.settings.nodes_max = 2;
  CHECK(contradictions(first, options) ==
        std::vector<std::string>{
            "Slurm step 12.0 has 3 nodes, and --nnodes says 2: the others wait"});
  options.settings.nodes_min = options.settings.nodes_max = 1;
  CHECK(contradictions(first, options) ==
        std::vector<std::string>{"Slurm step 12.0 has 3 nodes, and each of them trains for itself, "
                                 "as --nnodes or --standalone says"});
  CHECK(contradictions(second, options).empty());
  options.workers.number = 4;
  CHECK(contradictions(second, options) ==
        std::vector<std::string>{
            "4 workers are asked for, and Slurm step 12.0 has given this node 2 GPUs"});
}

}  // namespace ddprun::launcher::slurm
