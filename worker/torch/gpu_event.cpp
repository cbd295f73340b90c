#include "worker/torch/gpu_event.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace ddprun::worker {

std::shared_ptr<const gpu_event> gpu_event::record(const std::vector<c10::Device>& gpus) {
  auto made = std::make_shared<gpu_event>();
  for (const auto& gpu : gpus) {
    made->events_.emplace_back(gpu.type());
    made->events_.back().record(c10::impl::VirtualGuardImpl(gpu.type()).getStream(gpu));
  }
  return made;
}

bool gpu_event::is_done() const {
  return std::all_of(events_.begin(), events_.end(),
                     [](const c10::Event& each) { return each.query(); });
}

}  // namespace ddprun::worker
