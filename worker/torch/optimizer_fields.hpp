// The state that LibTorch's optimizers keep for each parameter, as fields with Python's names.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace ddprun::worker {

struct field_visitor {
  std::function<void(std::string_view name, at::Tensor& value)> on_tensor;  // may be undefined
  std::function<void(std::string_view name, std::int64_t& value)> on_number;
};

struct field_name {
  std::string_view name;
  bool is_required;  // wherever there is a state at all
  bool is_number;
};

// What this optimizer keeps; nothing: it is not one of those that are known here.
std::vector<field_name> fields_of(const torch::optim::Optimizer& optimizer);

// The state of this parameter; none where the optimizer has made no step with it.
torch::optim::OptimizerParamState* state_of(torch::optim::Optimizer& optimizer,
                                            const at::Tensor& parameter);
// Made where there is none. The optimizer must be known.
torch::optim::OptimizerParamState& make_state(torch::optim::Optimizer& optimizer,
                                              const at::Tensor& parameter);

void visit_fields(torch::optim::OptimizerParamState& state, const field_visitor& visitor);

}  // namespace ddprun::worker
