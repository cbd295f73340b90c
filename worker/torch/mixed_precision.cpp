#include "worker/torch/mixed_precision.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

namespace ddprun::worker {
namespace {

// The values of Python's GradScaler.
constexpr double growth = 2, backoff = 0.5;
constexpr std::int64_t growth_interval = 2000;

}  // namespace

autocast_scope::autocast_scope(at::DeviceType device, at::ScalarType type)
    : device_(device),
      was_enabled_(at::autocast::is_autocast_enabled(device)),
      type_before_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::set_autocast_dtype(device, type);
  at::autocast::increment_nesting();
}

autocast_scope::~autocast_scope() {
  // Clear the cache of cast weights, since the next step changes the weights.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, type_before_);
}

gradient_scaler::gradient_scaler(at::Device device, double scale)
    : scale_(at::full({1}, scale, at::TensorOptions(device).dtype(at::kFloat))),
      good_steps_(at::zeros({1}, at::TensorOptions(device).dtype(at::kInt))),
      found_inf_(at::zeros({1}, at::TensorOptions(device).dtype(at::kFloat))) {}

bool gradient_scaler::scale_down(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& each : parameters) {
    if (each.grad().defined()) gradients.push_back(each.grad());
  }
  found_inf_.zero_();
  if (gradients.empty()) return true;
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, scale_.reciprocal());
  return found_inf_.item<float>() == 0;
}

void gradient_scaler::update() {
  const at::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_, good_steps_, found_inf_, growth, backoff, growth_interval);
}

}  // namespace ddprun::worker
