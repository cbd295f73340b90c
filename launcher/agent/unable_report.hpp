// The word of a node whose command line cannot work there (an option that does not exist, no such
// script, too few GPUs, a log folder that cannot be written): it has told the person, and now tells
// the run, so that the others do not wait for it without knowing why.
//
// Thread rule: any; no daemon session of this process is on the calling thread. Blocks for
// `unable_report_limit` at most, while the endpoint is looked up and dialled. Nobody answers there
// for `nobody_there_limit`: nobody is told.
#pragma once

#include "launcher/cli/options.hpp"

#include <chrono>
#include <string>

namespace ddprun::launcher {

inline constexpr std::chrono::seconds unable_report_limit{3};
inline constexpr std::chrono::seconds nobody_there_limit{1};

// `node`: what others know it by. Nothing where no others are expected.
void tell_run_unable(const launch_options& options, const std::string& node,
                     const std::string& why);

}  // namespace ddprun::launcher
