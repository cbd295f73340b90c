#include "worker/torch/exponential_moving_average.hpp"

#include "worker/torch/model_tensors.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <stdexcept>
#include <utility>

namespace ddprun::worker {

exponential_moving_average::exponential_moving_average(
    const torch::nn::Module& model, const exponential_moving_average_options& options)
    : decay_(options.decay) {
  if (!(decay_ >= 0 && decay_ <= 1)) {
    throw std::invalid_argument("exponential moving average: its decay is " +
                                std::to_string(decay_) + ", and must be from 0 to 1");
  }
  for (auto& [name, parameter] : parameters_once(model)) {
    // A detached tensor shares the weight's memory, so it follows the weight's updates.
    const auto weight = parameter.detach();
    tensors_.push_back({name, weight, weight.clone(), false});
  }
  if (!options.buffers) return;
  for (const auto& buffer : model.named_buffers())
    tensors_.push_back({buffer.key(), buffer.value(), buffer.value().clone(), true});
}

void exponential_moving_average::update() {
  if (is_swapped_) {
    throw std::logic_error(
        "exponential moving average: it is swapped into the model, whose weights cannot be "
        "averaged meanwhile; end the scope of swap_in() first");
  }
  const at::NoGradGuard no_grad;
  for (auto& each : tensors_) {
    if (updates_ == 0 || !each.of_model.is_floating_point()) {
      each.average.copy_(each.of_model);
    } else {
      each.average.lerp_(each.of_model, 1 - decay_);
    }
  }
  ++updates_;
}

// Swaps values rather than tensors: gradients, the optimizer's state and views of a weight refer to
// it by its memory.
void exponential_moving_average::swap() {
  const at::NoGradGuard no_grad;
  for (auto& each : tensors_) {
    const auto weight = each.of_model.clone();
    each.of_model.copy_(each.average);
    each.average.copy_(weight);
  }
  is_swapped_ = !is_swapped_;
}

}  // namespace ddprun::worker
