// A hook of c10d::Reducer that sends gradients in a smaller type.
#pragma once

#include "worker/torch/distributed_data_parallel.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace c10d {
class Reducer;
}

namespace ddprun::worker {

// Installs the hook. Call it once, before the first backward pass.
void compress_gradients(c10d::Reducer& reducer, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                        gradient_compression how);

}  // namespace ddprun::worker
