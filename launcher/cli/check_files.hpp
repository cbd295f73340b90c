// Checks on this machine, before anything starts, that what the workers execute exists.
//
// It finds the user's mistakes (a wrong path, a missing mode bit); what only exec can find is
// reported by the process that tries.
//
// Thread rule: any thread; reads the file system.
#pragma once

#include "launcher/cli/options.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <string>

namespace ddprun::launcher {

// Checks the script or program, and Python if it is needed. Relative paths start at the current
// folder; program names without "/" are looked up in PATH.
cli::checked check_files(const launch_options& options, const environment_map& environment);

// The path of ddprun-nccl-id beside this program, whether it exists or not.
std::string nccl_helper_program();

// The Python that runs scripts: $PYTHON_EXEC; otherwise that of the environment where this program
// is installed, as with torchrun; otherwise that of $VIRTUAL_ENV if its folder is not in PATH at
// all; otherwise the first python3 or python in PATH; "python3" if there is none.
std::string python_program(const environment_map& environment);

}  // namespace ddprun::launcher
