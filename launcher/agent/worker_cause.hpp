// What a worker's end says of why its round ends: what it died of, and its own last words.
//
// Thread rule: pure function, but for the clock.
#pragma once

#include "launcher/process/worker_group.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <string>

namespace ddprun::launcher {

// `recorded`: the exception that PyTorch's @record has kept of it, which counts more than what was
// printed; empty: none. Round and node are the caller's to say. Of a success only how it ended.
//
// One that was stopped, and had told before of a failure that is no effect, was_failing.
cause cause_of(const worker_end& end, const std::string& recorded);

}  // namespace ddprun::launcher
