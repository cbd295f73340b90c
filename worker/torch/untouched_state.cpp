#include "worker/torch/untouched_state.hpp"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <mutex>

namespace ddprun::worker {

untouched_state::untouched_state(const torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  std::vector<c10::Device> devices{c10::Device(c10::DeviceType::CPU)};
  const auto add = [&](const c10::Device& device) {
    if (!device.is_cpu() && std::find(devices.begin(), devices.end(), device) == devices.end())
      devices.push_back(device);
  };
  for (const auto& parameter : module.parameters())
    add(parameter.device());
  for (const auto& buffer : module.buffers()) {
    add(buffer.device());
    buffers_.emplace_back(buffer, buffer.clone());
  }
  for (const auto& device : devices) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    generators_.emplace_back(generator, generator.get_state());
  }
}

void untouched_state::put_back() const {
  const at::NoGradGuard no_grad;
  for (const auto& [buffer, before] : buffers_)
    at::Tensor(buffer).copy_(before);
  for (const auto& [of, before] : generators_) {
    at::Generator generator = of;
    const std::lock_guard lock(generator.mutex());
    generator.set_state(before);
  }
}

}  // namespace ddprun::worker
