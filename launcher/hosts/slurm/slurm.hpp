// Slurm as an engine: `srun ddprun train.py` needs no other flag. README.md beside this file has
// the rules, and why they are so.
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

// For the table in engines.cpp. Reads /proc, to tell a batch script from a step, and asks scontrol
// where the first node's name does not resolve. Of a step that is refused as it has several tasks
// on a node it says so itself, once on each node; the error has no text then.
hosts::placement_outcome find(const environment_map& environment);

// Pure: what a step means to ddprun. An error: it cannot be meant so.
hosts::placement_outcome place(const step& found);

// Pure: where options contradict the step's variables, a line each. Nothing is wrong where
// ddprun has taken its options from them.
std::vector<std::string> contradictions(const step& found, const launch_options& options);

// The same for this process; nothing outside of a step, and nothing where another engine (mpirun
// in a Slurm job) has said what the options are, `placed_by`.
std::vector<std::string> contradictions_here(const environment_map& environment,
                                             const launch_options& options,
                                             const std::string& placed_by);

}  // namespace ddprun::launcher::slurm
