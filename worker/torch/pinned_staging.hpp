// Brings a GPU's tensors to host memory: on streams of its own, after the work that the caller's
// stream had when the fetch was prepared, and through pinned memory of bounded size, which is
// reused. Memory that is not pinned takes several times as long (tests/benchmark/README.md), so it
// is used only if none can be pinned, with one message.
//
// Thread rule: any thread; fetches from the same GPU wait for each other.
#pragma once

#include "worker/snapshot/device_bytes.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace ddprun::worker {

// For each GPU that tensors are fetched from.
constexpr std::size_t pinned_staging_bytes = std::size_t{16} << 20;

struct prepared_fetch {
  std::function<void(char* to)> copy;         // the bytes are there when it returns
  std::shared_ptr<const device_bytes> bytes;  // the same, together with other tensors
};

// Call it on the thread that trains. The result may be used on any thread; until then the tensor
// must not be written to. A tensor that is not contiguous is first copied on the GPU, and small
// tensors that are fetched together are joined there. Errors: LibTorch's.
prepared_fetch prepare_fetch(const at::Tensor& tensor);

}  // namespace ddprun::worker
