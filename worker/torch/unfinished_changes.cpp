#include "worker/torch/unfinished_changes.hpp"

#include <ATen/core/grad_mode.h>

namespace ddprun::worker {
namespace {

bool is_worth_a_copy(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.nbytes() <= put_back_bytes_max;
}

bool has_form_of(const at::Tensor& copy, const at::Tensor& tensor) {
  return copy.defined() && copy.sizes() == tensor.sizes() && copy.dtype() == tensor.dtype() &&
         copy.device() == tensor.device();
}

}  // namespace

// Done once, because collecting the names of many parameters can take longer than a step.
void unfinished_changes::collect() {
  for (const auto& each : model_.named_parameters())
    parts_.push_back(
        {"parameter '" + each.key() + "'", nullptr, each.value(), true, false, {}, {}});
  for (const auto& each : model_.named_buffers())
    parts_.push_back({"buffer '" + each.key() + "'", nullptr, each.value(), false, true, {}, {}});
  for (const auto& each : kept_.tensors()) {
    const bool is_weight = each.is_average || (each.variable == nullptr && !each.is_buffer);
    parts_.push_back(
        {"'" + each.name + "'", each.variable, each.tensor, is_weight, each.is_buffer, {}, {}});
  }
}

void unfinished_changes::remember(part& of) {
  if (of.variable != nullptr) of.tensor = *of.variable;
  of.mark.emplace(of.tensor);
  if (!of.tensor.defined() || of.is_weight || !(of.is_buffer || is_worth_a_copy(of.tensor))) {
    of.copy.reset();
  } else if (has_form_of(of.copy, of.tensor)) {
    of.copy.copy_(of.tensor);
  } else {
    of.copy = of.tensor.detach().clone();
  }
}

void unfinished_changes::begin(bool looks_at_weights) {
  if (!has_begun_) collect();
  looks_at_weights_ = looks_at_weights;
  const at::NoGradGuard no_grad;
  for (auto& each : parts_) {
    if (looks_at_weights || !each.is_weight) remember(each);
  }
  texts_ = kept_.texts();
  rates_.clear();
  for (const auto& group : optimizer_.param_groups())
    rates_.push_back(group.options().get_lr());
  has_begun_ = true;
}

bool unfinished_changes::is_put_back(part& of) {
  if (of.variable != nullptr) *of.variable = of.tensor;
  if (!of.copy.defined()) return of.mark->fits(of.tensor);
  if (!has_form_of(of.copy, of.tensor)) return false;
  of.tensor.copy_(of.copy);
  return true;
}

std::string unfinished_changes::put_back() {
  if (!has_begun_) return "";
  const at::NoGradGuard no_grad;
  std::string first;
  std::size_t count = 0;
  for (auto& each : parts_) {
    if ((each.is_weight && !looks_at_weights_) || is_put_back(each)) continue;
    if (count++ == 0) first = each.name;
  }
  kept_.put_back(texts_);
  auto& groups = optimizer_.param_groups();
  for (std::size_t at = 0; at < groups.size() && at < rates_.size(); ++at)
    groups[at].options().set_lr(rates_[at]);
  return count > 1 ? first + " and " + std::to_string(count - 1) + " more" : first;
}

}  // namespace ddprun::worker
