// The files in memory into which a worker that began with ddprun_stacks.py writes for the agent.
//
// Thread rule: any thread, not the main one (see proc_files.hpp).
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <string_view>
#include <sys/types.h>

namespace ddprun::launcher::evidence {

// For reading and writing; none: it has no file of this name.
unique_fd open_worker_file(pid_t pid, std::string_view name);

}  // namespace ddprun::launcher::evidence
