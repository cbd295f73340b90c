// What Slurm says about this process by the variables of a step, a batch script or an allocation.
//
// Source: srun(1), sbatch(1) and salloc(1), "OUTPUT ENVIRONMENT VARIABLES", Slurm 22.05; a step of
// a heterogeneous job has them for all of its components together.
#pragma once

#include "launcher/hosts/placement.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::slurm {

// How a ddprun has come to run there.
enum class origin {
  step,        // started by srun
  batch,       // in the batch script itself, on the job's first node
  allocation,  // in a shell of salloc, most often on another host than the job's
};

// One start of ddprun under Slurm.
struct step {
  origin from = origin::step;
  std::uint64_t job = 0;
  std::uint64_t number = 0;             // of the step
  std::string array_task;               // "12_3"; empty: the job is none of an array
  std::uint32_t restarts = 0;           // how often the job has been requeued
  std::vector<std::string> nodes;       // in the order of their node ranks
  std::uint32_t node_rank = 0;          // of this one
  std::uint32_t task = 0;               // of the step, this one
  std::uint32_t tasks_on_node_max = 1;  // of any node
  std::optional<std::uint32_t> gpus;    // for this process; empty: Slurm has given none
  std::optional<std::uint32_t> cpus;    // on this node
  bool is_shell = false;                // a person's: task 0 of srun --pty
  std::string first_address;            // of the first node, where Slurm says so by itself

  // "Slurm step 12.0", "Slurm job 12".
  std::string name() const;
  // Different for each start of the job, the same on all of its nodes.
  std::string run_id() const;
};

// Nothing: no Slurm has started this process. `step_daemon` is how the slurmstepd above this
// process calls itself ("slurmstepd: [12.batch]"), empty where that cannot be seen: variables of
// the step in which somebody has called sbatch are there in the batch script, too.
cli::parsed<std::optional<step>> read_step(const environment_map& environment,
                                           std::string_view step_daemon = {});

}  // namespace ddprun::launcher::slurm
