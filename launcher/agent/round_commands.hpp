// The commands with which this node's workers of a round are started: what each one runs, in which
// environment, on which processors, and where its output goes.
//
// Thread rule: the main thread. Asks the kernel for free ports and for the size of our terminal,
// and resolves this host's name; nothing is opened.
#pragma once

#include "launcher/agent/worker_environment.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/output/log_folder.hpp"
#include "launcher/process/worker_group.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <vector>

namespace ddprun::launcher {

// By local rank. `logs` is at this round; `processors` are those of each worker, by local rank
// (empty: as ours).
std::vector<worker_command> commands_of_round(const launch_options& options,
                                              const worker_round& round,
                                              const environment_map& inherited,
                                              const log_folder& logs,
                                              const std::vector<std::vector<int>>& processors);

// Some worker gets our terminal.
bool uses_terminal(const std::vector<worker_command>& commands);

}  // namespace ddprun::launcher
