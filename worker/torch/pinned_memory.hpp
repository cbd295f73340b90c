// Batches for a GPU, in memory that it can read by itself while the program goes on.
//
//   batch load(...) { ... return {pinned_for(device, images), pinned_for(device, labels)}; }
//   const auto inputs = loaded.images.to(device, /*non_blocking=*/true);
//
// Thread rule: any thread; it is meant for those of a data_loader.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun::worker {

// A copy in pinned memory, where `device` is a GPU; else the tensor as it is. Errors: LibTorch's.
at::Tensor pinned_for(c10::Device device, const at::Tensor& tensor);

}  // namespace ddprun::worker
