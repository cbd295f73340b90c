// NCCL for the tensors on GPUs of a process group: LibTorch's own ProcessGroupNCCL.
//
//   const auto here = read_environment();
//   const torch::Device device = gpu_of(here);
//   auto group = process_group::join(here, {.backends = {nccl_backend(device)}});
//
// With .gloo = false besides, ranks are connected by NCCL alone, as in PyTorch's "nccl" groups.
//
// Each rank has a GPU of its own. The id of NCCL goes through LibTorch's store, as in Python.
//
// A rank that does not come to a collective is found by LibTorch's watchdog, which ends the process
// after collective_timeout (10 minutes where none is said): no process_group_error is thrown then.
//
// Thread rule: as process_group. Errors: process_group_error, from gpu_of() and join().
#pragma once

#include "worker/torch/process_group.hpp"

#include <c10/core/Device.h>

namespace ddprun::worker {

// LOCAL_RANK's GPU, or the only one that is visible; the current one of this thread from here on.
// Throws process_group_error where there is none for this rank.
c10::Device gpu_of(const environment& here);

backend_maker nccl_backend(c10::Device device);

}  // namespace ddprun::worker
