// Mixed precision: the forward pass computes in half the bits where that does no harm, the weights
// stay as they are. LibTorch's own autocast decides what is computed in which type, and its own
// kernels scale gradients, as in Python's torch.autocast and torch.amp.GradScaler.
//
// bfloat16 needs no scaler: it has float32's range. Gradients in float16 would become 0 where they
// are small, so the loss is scaled up and the gradients, averaged over the ranks, down again. A
// step whose gradients are not finite is left out, on all ranks alike, and the scale halved; after
// 2,000 good steps it is doubled.
//
// Errors: LibTorch's.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun::worker {

// As long as it lives, what is computed on this kind of device is computed in this type.
class autocast_scope {
 public:
  autocast_scope(at::DeviceType device, at::ScalarType type);
  ~autocast_scope();
  autocast_scope(const autocast_scope&) = delete;
  autocast_scope& operator=(const autocast_scope&) = delete;

 private:
  at::DeviceType device_;
  bool was_enabled_;
  at::ScalarType type_before_;
};

class gradient_scaler {
 public:
  explicit gradient_scaler(at::Device device, double scale = 65536);

  at::Tensor scale_up(const at::Tensor& loss) const { return loss * scale_; }
  // The gradients of these, in place. False: one is not finite, and no step is to be made.
  bool scale_down(const std::vector<at::Tensor>& parameters);
  // After the step, or in its place.
  void update();

  // For a snapshot: F32 and I32, of one element.
  at::Tensor& scale() { return scale_; }
  at::Tensor& good_steps() { return good_steps_; }

 private:
  at::Tensor scale_;
  at::Tensor good_steps_;  // since the scale was changed
  at::Tensor found_inf_;   // 1: in this step
};

}  // namespace ddprun::worker
