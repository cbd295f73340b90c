// The state that LibTorch's optimizers hold for each parameter, as fields with Python's names.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace ddprun::worker {

struct field_visitor {
  std::function<void(std::string_view name, at::Tensor& value)> on_tensor;  // undefined too
  std::function<void(std::string_view name, std::int64_t& value)> on_number;
};

struct field_name {
  std::string_view name;
  bool is_required;  // present whenever the parameter has a state
  bool is_number;
};

// The fields of this optimizer's state; none if the optimizer is not supported here.
std::vector<field_name> fields_of(const torch::optim::Optimizer& optimizer);

// The state of this parameter, or nullptr if the optimizer has made no step with it.
torch::optim::OptimizerParamState* state_of(torch::optim::Optimizer& optimizer,
                                            const at::Tensor& parameter);
// The same, created if it is missing. The optimizer must be supported.
torch::optim::OptimizerParamState& make_state(torch::optim::Optimizer& optimizer,
                                              const at::Tensor& parameter);

void visit_fields(torch::optim::OptimizerParamState& state, const field_visitor& visitor);

}  // namespace ddprun::worker
