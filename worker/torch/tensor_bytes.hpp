// Converts between LibTorch's tensors and those of snapshots.
//
// Thread rule: any thread. Errors: training_state_error, and LibTorch's.
#pragma once

#include "worker/snapshot/tensor_view.hpp"

#include <ATen/core/Tensor.h>

#include <stdexcept>
#include <string>

namespace ddprun::worker {

class training_state_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The tensor as a snapshot saves it. Its bytes are the tensor's memory, or are fetched from there.
// A GPU's tensor is fetched after the work that is now queued on this thread's current stream, from
// whichever thread, and beside later work (pinned_staging.hpp). A type that safetensors does not
// support throws training_state_error.
tensor_view view_of(std::string name, const at::Tensor& tensor);

// A tensor on the memory of the view, which must outlive it and not be written to. If the view's
// bytes must be fetched, the tensor has memory of its own.
at::Tensor tensor_of(const tensor_view& view);

}  // namespace ddprun::worker
