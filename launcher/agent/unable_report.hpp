// Reports a node whose command line cannot work there (an option that does not exist, no such
// script, too few GPUs, a log folder that cannot be written). It has told the user, and now tells
// the run, so that the other nodes do not wait for it without knowing why.
//
// Thread rule: any thread without a daemon session of this process. Blocks for
// `unable_report_limit` at most, while the endpoint is resolved and dialled. If nothing listens
// there for `nobody_there_limit`, it gives up.
#pragma once

#include "launcher/cli/options.hpp"

#include <chrono>
#include <string>

namespace ddprun::launcher {

inline constexpr std::chrono::seconds unable_report_limit{3};
inline constexpr std::chrono::seconds nobody_there_limit{1};

// `node` is its name for other nodes. Does nothing if no other nodes are expected.
void tell_run_unable(const launch_options& options, const std::string& node,
                     const std::string& why);

}  // namespace ddprun::launcher
