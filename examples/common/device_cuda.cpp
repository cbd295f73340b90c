#include "examples/common/device.hpp"
#include "worker/torch_cuda/nccl_backend.hpp"

namespace examples {

joined join(const ddprun::worker::environment& here) {
  const auto device = ddprun::worker::gpu_of(here);
  ddprun::worker::process_group_options options;
  options.backends = {ddprun::worker::nccl_backend(device)};
  options.gloo = false;  // all tensors are on the GPU, so NCCL suffices
  return {device, ddprun::worker::process_group::join(here, options)};
}

}  // namespace examples
