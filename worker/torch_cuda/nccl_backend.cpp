#include "worker/torch_cuda/nccl_backend.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdlib>
#include <string>

namespace ddprun::worker {

c10::Device gpu_of(const environment& here) {
  const auto fail = [&](const std::string& what) {
    const char* const list = std::getenv("CUDA_VISIBLE_DEVICES");
    return process_group_error(
        "rank " + std::to_string(here.rank) + " of " + std::to_string(here.world_size) + ": " +
        what + (list == nullptr ? "" : " (CUDA_VISIBLE_DEVICES=" + std::string(list) + ")"));
  };
  const int visible = c10::cuda::device_count();  // 0 where there is no driver, too
  if (visible == 0) throw fail("no GPU is visible");
  const int chosen = visible == 1 ? 0 : static_cast<int>(here.local_rank);
  if (chosen >= visible) {
    throw fail("GPU " + std::to_string(chosen) + " is wanted, and " + std::to_string(visible) +
               " are visible: start at most as many workers on this node");
  }
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(chosen));
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(chosen)};
}

backend_maker nccl_backend(c10::Device device) {
  return [device](c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
                  const process_group_options& options) {
    auto values = c10d::ProcessGroupNCCL::Options::create();
    values->timeout = options.collective_timeout;
    auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, group.getRank(),
                                                               group.getSize(), values);
    backend->setBoundDeviceId(device);
    group.setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL, backend);
  };
}

}  // namespace ddprun::worker
