// Checks on this machine, before anything starts, that what the workers are to execute is there.
//
// It answers for the person's mistakes (a wrong path, a missing mode bit); what only exec can find
// out is reported by the process that tries.
//
// Thread rule: any thread; reads the file system.
#pragma once

#include "launcher/cli/options.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <string>

namespace ddprun::launcher {

// The script or program, and Python where it is needed. Relative names are taken from the current
// folder, names of programs without "/" from PATH.
cli::checked check_files(const launch_options& options, const environment_map& environment);

// The ddprun-nccl-id beside this program; there or not.
std::string nccl_helper_program();

// The Python that runs scripts: $PYTHON_EXEC; else that of the environment that this program is
// installed in, as with torchrun; else that of $VIRTUAL_ENV, where its folder is not in PATH at
// all; else the first python3 or python in PATH; "python3" where there is none.
std::string python_program(const environment_map& environment);

}  // namespace ddprun::launcher
