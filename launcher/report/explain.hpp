// `ddprun explain FILE...` says why a job failed, from its saved log; see saved_log.hpp.
//
// Thread rule: the main thread; it blocks while it reads.
#pragma once

#include <span>

namespace ddprun::launcher {

// Reads the files ("-" is standard input) and writes to standard output. Returns the exit code: 0;
// 1 if nothing looks like a failure; 2 if a file cannot be read or none is given.
int explain(std::span<const char* const> files);

}  // namespace ddprun::launcher
