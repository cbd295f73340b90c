// LibTorch's tensors as snapshots keep them, and back.
//
// Thread rule: any thread.
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

// As a snapshot has it: its bytes lie where the tensor's do, or are fetched from there. From a GPU
// they are fetched after the work that was given before to the stream that is this thread's current
// one now, whatever thread fetches them: beside what comes later (pinned_staging.hpp). A type that
// safetensors does not know is a training_state_error.
tensor_view view_of(std::string name, const at::Tensor& tensor);

// A tensor over the bytes of the view, which must live as long, and not be written to; or of its
// own memory, where they are fetched.
at::Tensor tensor_of(const tensor_view& view);

}  // namespace ddprun::worker
