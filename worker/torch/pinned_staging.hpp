// Brings tensors of a GPU to host memory: on streams of its own, behind what the caller's stream
// had to do when the fetch was prepared, and through pinned memory of bounded size, which is kept
// for the next time. Memory that is not pinned takes several times as long
// (tests/benchmark/README.md): only where none can be pinned it is used, which is said once.
//
// Thread rule: any thread; those that fetch from one GPU wait for each other.
#pragma once

#include "worker/snapshot/device_bytes.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace ddprun::worker {

// Of each GPU that tensors were fetched from.
constexpr std::size_t pinned_staging_bytes = std::size_t{16} << 20;

struct prepared_fetch {
  std::function<void(char* to)> copy;         // brings the bytes, and has done so on return
  std::shared_ptr<const device_bytes> bytes;  // the same, with those of others
};

// To be called on the thread that trains. What it returns may be used on any thread; the tensor
// must not be written to before. A tensor whose elements do not lie in order is copied on the GPU
// first, and small ones that come together are put side by side there. Errors: LibTorch's.
prepared_fetch prepare_fetch(const at::Tensor& tensor);

}  // namespace ddprun::worker
