// The word of a node whose command line cannot work there (no such script, too few GPUs, a log
// folder that cannot be written): it has told the person, and now tells the run, so that the others
// do not wait for it without knowing why.
//
// Thread rule: before any other thread, or from the main thread. Blocks for `limit` at most, while
// the endpoint is looked up and dialled. Nobody at the endpoint: nobody is told.
#pragma once

#include "launcher/cli/options.hpp"

#include <chrono>
#include <string>

namespace ddprun::launcher {

inline constexpr std::chrono::seconds unable_word_limit{3};

// `node`: what others know it by. Nothing where no others are expected.
void tell_run_unable(const launch_options& options, const std::string& node,
                     const std::string& why);

}  // namespace ddprun::launcher
