// `ddprun explain FILE`: why a job failed, from its saved log; see saved_log.hpp.
//
// Thread rule: the main thread; it blocks while it reads.
#pragma once

namespace ddprun::launcher {

// Two arguments, the first of which is "explain".
bool is_to_explain(int argc, const char* const* argv);

// Reads the file, or standard input for "-", and writes to standard output; --help says so. What
// the process exits with: 0, 1 where there is nothing like a failure, 2 where the file cannot be
// read.
int explain(const char* file);

}  // namespace ddprun::launcher
