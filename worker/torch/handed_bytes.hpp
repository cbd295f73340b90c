// How a snapshot's bytes go to all ranks of a process group.
#pragma once

#include "worker/snapshot/snapshot_state.hpp"
#include "worker/torch/process_group.hpp"

#include <c10/core/Device.h>

namespace ddprun::worker {

// Over Gloo, or where the group has none through memory of that device, which is a GPU. The group
// must outlive it. It throws a process_group_error.
byte_broadcast broadcast_over(process_group& group, at::Device device);

}  // namespace ddprun::worker
