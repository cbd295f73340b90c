// Whether a call in which a Python thread stands may be a wait for its GPU.
//
// torch.cuda.synchronize() and what DistributedDataParallel does are functions of torch, with
// frames of their own. `.item()`, `.cpu()` and such are functions of C: the innermost frame is the
// script's own, and only the text of its line says what it calls.
//
// Thread rule: `line_in_source` reads a file, and waits as long as its file system does; the rest
// are pure functions.
#pragma once

#include "launcher/evidence/python_stack.hpp"

#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun::launcher::evidence {

// The line of a worker's source in which a frame stands; empty: it cannot be read.
std::string line_in_source(pid_t pid, const stack_frame& frame);

// "synchronize", ".item()"; empty: it is none. `line`: of the innermost frame.
std::string gpu_wait_of(const std::vector<stack_frame>& stack, std::string_view line);

}  // namespace ddprun::launcher::evidence
