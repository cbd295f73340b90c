// Mixed precision: the forward pass computes in 16 bits where that does no harm, and the weights
// keep their type. LibTorch's own autocast chooses the type of each operation, and its own kernels
// scale the gradients, as in Python's torch.autocast and torch.amp.GradScaler.
//
// bfloat16 needs no scaler, since it has float32's range. In float16 small gradients would become
// 0, so the loss is scaled up, and the gradients are scaled down after they have been averaged over
// the ranks. If gradients are not finite, all ranks skip the step, and the scale is halved; after
// 2,000 good steps it is doubled.
//
// Thread rule: one thread; autocast is set for the calling thread. Errors: LibTorch's.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun::worker {

// While it exists, this thread computes in this type on this kind of device.
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
  // Unscales the parameters' gradients in place. False if one is not finite: then skip the step.
  bool scale_down(const std::vector<at::Tensor>& parameters);
  // Adapts the scale. Call it after each step, also a skipped one.
  void update();

  // For snapshots: F32 and I32, of one element.
  at::Tensor& scale() { return scale_; }
  at::Tensor& good_steps() { return good_steps_; }

 private:
  at::Tensor scale_;
  at::Tensor good_steps_;  // since the scale last changed
  at::Tensor found_inf_;   // 1 if this step had gradients that were not finite
};

}  // namespace ddprun::worker
