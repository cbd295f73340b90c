// Slurm as an engine: `srun ddprun train.py` needs no other flag. README.md beside this file has
// the rules and their reasons.
//
// Thread rule: before the first thread.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/hosts/placement.hpp"
#include "launcher/hosts/slurm/step.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::slurm {

// For the table in engines.cpp. Reads /proc to distinguish a batch script from a step, and asks
// scontrol if the first node's name does not resolve. If a step is refused because it has several
// tasks on a node, it reports that itself, once per node; then the error has no text.
hosts::placement_outcome find(const environment_map& environment);

// Pure: what a step means to ddprun. Error: it cannot work.
hosts::placement_outcome place(const step& found);

// Pure: where options contradict the step's variables, a line each. Empty if ddprun has taken its
// options from them.
std::vector<std::string> contradictions(const step& found, const launch_options& options);

// The same for this process; empty outside of a step, and if another engine (mpirun in a Slurm
// job), named by `placed_by`, has provided the options.
std::vector<std::string> contradictions_here(const environment_map& environment,
                                             const launch_options& options,
                                             const std::string& placed_by);

}  // namespace ddprun::launcher::slurm
