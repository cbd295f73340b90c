#include "worker/torch/pinned_memory.hpp"

#include <c10/core/DeviceGuard.h>

namespace ddprun::worker {

at::Tensor pinned_for(c10::Device device, const at::Tensor& tensor) {
  if (!device.is_cuda() || !tensor.is_cpu()) return tensor;
  // A new thread's current device is the first GPU, on which this rank must not create a context.
  const c10::DeviceGuard on(device);
  return tensor.pin_memory();
}

}  // namespace ddprun::worker
