// Finds out from a worker's end why it has failed: how it ended, or was not started, and its last
// output.
//
// Thread rule: pure function, except for the clock.
#pragma once

#include "launcher/process/worker_group.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <string>

namespace ddprun::launcher {

// `recorded` is the exception that PyTorch's @record has saved, which counts more than the output;
// empty: none. The caller fills in round and node. For a success only its end is filled in.
//
// A worker that was stopped after it had printed a failure of its own (not a secondary one) gets
// was_failing.
cause cause_of(const worker_end& end, const std::string& recorded);

}  // namespace ddprun::launcher
