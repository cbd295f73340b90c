// What this node starts, as others are told when it opens a run: see started_job.
#pragma once

#include "launcher/cli/options.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <ctime>
#include <string>

namespace ddprun::launcher {

// `node`: this node's label; `now`: when it starts, said by this host's clock. The digest is of the
// program and its arguments as they were typed; where a person has given the run its id there is
// none, as that says which job it is.
started_job own_job(const launch_options& options, const std::string& node, std::time_t now);

// In the words with which it greets a daemon.
void say_job(hello& words, const started_job& job);

}  // namespace ddprun::launcher
