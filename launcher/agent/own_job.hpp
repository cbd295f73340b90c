// What this node starts, as other nodes are told when it opens a run: see started_job.
#pragma once

#include "launcher/cli/options.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <ctime>
#include <string>

namespace ddprun::launcher {

// `node` is this node's label, `now` the start time by this host's clock. The digest covers the
// program and its arguments as typed. There is none if the user has chosen the run's id, because
// that identifies the job.
started_job own_job(const launch_options& options, const std::string& node, std::time_t now);

// Adds the job to the `hello` for a daemon.
void say_job(hello& words, const started_job& job);

}  // namespace ddprun::launcher
