// Puts batches for a GPU into pinned memory, which the GPU can read while the program goes on.
//
//   batch load(...) { ... return {pinned_for(device, images), pinned_for(device, labels)}; }
//   const auto inputs = loaded.images.to(device, /*non_blocking=*/true);
//
// Thread rule: any thread; it is meant for the threads of a data_loader.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun::worker {

// Returns a copy in pinned memory if `device` is a GPU, otherwise the tensor. Errors: LibTorch's.
at::Tensor pinned_for(c10::Device device, const at::Tensor& tensor);

}  // namespace ddprun::worker
