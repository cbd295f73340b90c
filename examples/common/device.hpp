// Where a rank computes. An example that uses this is built as two programs: NAME computes on the
// CPU and does not load CUDA, NAME_cuda computes on this rank's GPU and uses NCCL.
#pragma once

#include "worker/torch/process_group.hpp"

#include <c10/core/Device.h>

namespace examples {

struct joined {
  c10::Device device;
  ddprun::worker::process_group group;  // for tensors on this device
};

// Waits for all ranks. Throws process_group_error, also if this rank has no GPU.
joined join(const ddprun::worker::environment& here);

}  // namespace examples
