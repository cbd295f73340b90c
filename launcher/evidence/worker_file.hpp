// Finds the memory files into which a worker with ddprun_stacks.py writes for the agent.
//
// Thread rule: any thread but the main one (see proc_files.hpp).
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <string_view>
#include <sys/types.h>

namespace ddprun::launcher::evidence {

// Opens it for reading and writing; none: the worker has no file of this name.
unique_fd open_worker_file(pid_t pid, std::string_view name);

}  // namespace ddprun::launcher::evidence
