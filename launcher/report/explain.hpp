// `ddprun explain FILE...`: why a job failed, from its saved log; see saved_log.hpp.
//
// Thread rule: the main thread; it blocks while it reads.
#pragma once

#include <span>

namespace ddprun::launcher {

// Reads the files, of which "-" is standard input, and writes to standard output; --help says so.
// What the process exits with: 0, 1 where there is nothing like a failure, 2 where a file cannot be
// read, or none is named.
int explain(std::span<const char* const> files);

}  // namespace ddprun::launcher
