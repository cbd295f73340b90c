// NCCL for the GPU tensors of a process group, by LibTorch's own ProcessGroupNCCL.
//
//   const auto here = read_environment();
//   const torch::Device device = gpu_of(here);
//   auto group = process_group::join(here, {.backends = {nccl_backend(device)}});
//
// With .gloo = false added, the ranks are connected by NCCL alone, as in PyTorch's "nccl" groups.
// Each rank has its own GPU. NCCL's id is exchanged over LibTorch's store, as in Python.
//
// If a rank does not come to a collective, LibTorch's watchdog ends the process after
// collective_timeout (10 minutes by default); no process_group_error is thrown in that case. It is
// off in a group with `watchdog = false`.
//
// Thread rule: as for process_group. Errors: gpu_of() and join() throw process_group_error.
#pragma once

#include "worker/torch/process_group.hpp"

#include <c10/core/Device.h>

namespace ddprun::worker {

// LOCAL_RANK's GPU, or the only visible one. Makes it the current device of this thread. Throws
// process_group_error if there is no GPU for this rank.
c10::Device gpu_of(const environment& here);

backend_maker nccl_backend(c10::Device device);

}  // namespace ddprun::worker
