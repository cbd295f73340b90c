// Sends a snapshot's bytes to all ranks of a process group.
#pragma once

#include "worker/snapshot/snapshot_state.hpp"
#include "worker/torch/process_group.hpp"

#include <c10/core/Device.h>

namespace ddprun::worker {

// Uses Gloo. If the group has none, it uses NCCL, by way of memory on `device`, which must be a
// GPU. The group must outlive the result. Errors: a call throws process_group_error.
byte_broadcast broadcast_over(process_group& group, at::Device device);

}  // namespace ddprun::worker
