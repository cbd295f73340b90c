// Where a rank computes. Each example that uses this is two programs of the same sources: NAME
// computes on the CPU and loads nothing of CUDA, NAME_cuda on this rank's GPU, over NCCL.
#pragma once

#include "worker/torch/process_group.hpp"

#include <c10/core/Device.h>

namespace examples {

struct joined {
  c10::Device device;
  ddprun::worker::process_group group;  // for tensors on this device
};

// Waits for all ranks. Throws process_group_error, also where this rank has no GPU.
joined join(const ddprun::worker::environment& here);

}  // namespace examples
