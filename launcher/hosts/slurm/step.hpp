// What Slurm says about this process in the variables of a step, a batch script or an allocation.
//
// Source: srun(1), sbatch(1) and salloc(1), "OUTPUT ENVIRONMENT VARIABLES", Slurm 22.05. A step of
// a heterogeneous job has them for all its components together.
#pragma once

#include "launcher/hosts/placement.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::slurm {

// How a ddprun was started.
enum class origin {
  step,        // started by srun
  batch,       // directly in the batch script, on the job's first node
  allocation,  // in a shell of salloc, usually on a host outside of the job
};

// One start of ddprun under Slurm.
struct step {
  origin from = origin::step;
  std::uint64_t job = 0;
  std::uint64_t number = 0;             // of the step
  std::string array_task;               // "12_3"; empty: not an array job
  std::uint32_t restarts = 0;           // how often the job was requeued
  std::vector<std::string> nodes;       // in the order of their node ranks
  std::uint32_t node_rank = 0;          // of this node
  std::uint32_t task = 0;               // this one, within the step
  std::uint32_t tasks_on_node_max = 1;  // the largest of all nodes
  std::optional<std::uint32_t> gpus;    // for this process; empty: Slurm has assigned none
  std::optional<std::uint32_t> cpus;    // on this node
  bool is_shell = false;                // an interactive one: task 0 of srun --pty
  std::string first_address;            // of the first node, if Slurm tells it

  // "Slurm step 12.0", "Slurm job 12".
  std::string name() const;
  // Different for each start of the job, the same on all its nodes.
  std::string run_id() const;
};

// Empty: Slurm has not started this process. `step_daemon` is the title of the slurmstepd above
// this process ("slurmstepd: [12.batch]"), or empty if it is not visible. It is needed because a
// batch script also has the variables of the step in which sbatch was called.
cli::parsed<std::optional<step>> read_step(const environment_map& environment,
                                           std::string_view step_daemon = {});

}  // namespace ddprun::launcher::slurm
