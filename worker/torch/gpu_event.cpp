#include "worker/torch/gpu_event.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace ddprun::worker {

std::shared_ptr<const gpu_event> gpu_event::record(const std::vector<c10::Device>& gpus) {
  auto made = std::make_shared<gpu_event>();
  for (const auto& gpu : gpus) {
    made->events_.emplace_back(gpu.type());
    made->events_.back().record(c10::impl::VirtualGuardImpl(gpu.type()).getStream(gpu));
    made->gpus_.push_back(gpu);
  }
  return made;
}

bool gpu_event::is_done() const {
  // A thread that has chosen no GPU would open a context on the first one, as CUDA does.
  for (std::size_t at = 0; at < events_.size(); ++at) {
    const c10::DeviceGuard on(gpus_[at]);
    if (!events_[at].query()) return false;
  }
  return true;
}

}  // namespace ddprun::worker
