// Tells whether the call that a Python thread is in may be a wait for its GPU.
//
// torch.cuda.synchronize() and DistributedDataParallel are Python functions with frames of their
// own. `.item()`, `.cpu()` and the like are C functions: the innermost frame is the script's own,
// and only the text of its line shows what it calls.
//
// Thread rule: `line_in_source` reads a file, and blocks as long as its file system does; the rest
// are pure functions.
#pragma once

#include "launcher/evidence/python_stack.hpp"

#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun::launcher::evidence {

// Returns the source line of a worker's frame; empty: it cannot be read.
std::string line_in_source(pid_t pid, const stack_frame& frame);

// Returns "synchronize" or ".item()"; empty: it is no such wait. `line` is that of the innermost
// frame.
std::string gpu_wait_of(const std::vector<stack_frame>& stack, std::string_view line);

}  // namespace ddprun::launcher::evidence
