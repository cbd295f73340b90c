#include "worker/torch_cuda/nccl_backend.hpp"

#include "worker/own_gpu.hpp"
#include "worker/round_parts.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <optional>
#include <string>

namespace ddprun::worker {

c10::Device gpu_of(const environment& here) {
  std::string problem;
  // device_count() is 0 also if there is no driver.
  const auto chosen =
      own_gpu(c10::cuda::device_count(), here.local_rank, std::nullopt, "", problem);
  if (!chosen) {
    throw process_group_error("rank " + std::to_string(here.rank) + " of " +
                              std::to_string(here.world_size) + ": " + problem);
  }
  const auto index = static_cast<c10::DeviceIndex>(*chosen);
  c10::cuda::set_device(index);
  return {c10::DeviceType::CUDA, index};
}

backend_maker nccl_backend(c10::Device device) {
  return [device](c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
                  const process_group_options& options) {
    stay_in_round();
    auto values = c10d::ProcessGroupNCCL::Options::create();
    values->timeout = options.collective_timeout.value_or(c10d::kProcessGroupNCCLDefaultTimeout);
    auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, group.getRank(),
                                                               group.getSize(), values);
    backend->setBoundDeviceId(device);
    group.setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL, backend);
    if (!options.gloo) group.setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
  };
}

}  // namespace ddprun::worker
