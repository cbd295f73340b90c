#include "worker/torch/optimizer_fields.hpp"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <memory>

namespace ddprun::worker {
namespace {

namespace optim = torch::optim;

template <typename State>
void visit_adam(State& state, const field_visitor& visitor) {
  visitor.on_number("step", state.step());
  visitor.on_tensor("exp_avg", state.exp_avg());
  visitor.on_tensor("exp_avg_sq", state.exp_avg_sq());
  visitor.on_tensor("max_exp_avg_sq", state.max_exp_avg_sq());
}

void visit(optim::AdamParamState& state, const field_visitor& visitor) {
  visit_adam(state, visitor);
}
void visit(optim::AdamWParamState& state, const field_visitor& visitor) {
  visit_adam(state, visitor);
}
void visit(optim::SGDParamState& state, const field_visitor& visitor) {
  visitor.on_tensor("momentum_buffer", state.momentum_buffer());
}
void visit(optim::RMSpropParamState& state, const field_visitor& visitor) {
  visitor.on_number("step", state.step());
  visitor.on_tensor("square_avg", state.square_avg());
  visitor.on_tensor("momentum_buffer", state.momentum_buffer());
  visitor.on_tensor("grad_avg", state.grad_avg());
}
void visit(optim::AdagradParamState& state, const field_visitor& visitor) {
  visitor.on_number("step", state.step());
  visitor.on_tensor("sum", state.sum());
}

template <typename Optimizer, typename State>
struct kind {
  using optimizer_type = Optimizer;
  using state_type = State;
};

// Calls `use` with each kind of optimizer until it returns true.
template <typename Use>
bool any_kind(Use use) {
  return use(kind<optim::Adam, optim::AdamParamState>()) ||
         use(kind<optim::AdamW, optim::AdamWParamState>()) ||
         use(kind<optim::SGD, optim::SGDParamState>()) ||
         use(kind<optim::RMSprop, optim::RMSpropParamState>()) ||
         use(kind<optim::Adagrad, optim::AdagradParamState>());
}

}  // namespace

std::vector<field_name> fields_of(const optim::Optimizer& optimizer) {
  std::vector<field_name> fields;
  field_visitor visitor;
  visitor.on_number = [&](std::string_view name, std::int64_t&) {
    fields.push_back({name, true, true});
  };
  visitor.on_tensor = [&](std::string_view name, at::Tensor&) {
    // These fields exist only if the optimizer's settings need them.
    const bool is_optional =
        name == "max_exp_avg_sq" || name == "momentum_buffer" || name == "grad_avg";
    fields.push_back({name, !is_optional, false});
  };
  any_kind([&]<typename Kind>(Kind) {
    if (dynamic_cast<const typename Kind::optimizer_type*>(&optimizer) == nullptr) return false;
    typename Kind::state_type state;
    visit(state, visitor);
    return true;
  });
  return fields;
}

optim::OptimizerParamState* state_of(optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  return found == optimizer.state().end() ? nullptr : found->second.get();
}

optim::OptimizerParamState& make_state(optim::Optimizer& optimizer, const at::Tensor& parameter) {
  auto& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!state) {
    any_kind([&]<typename Kind>(Kind) {
      if (dynamic_cast<typename Kind::optimizer_type*>(&optimizer) == nullptr) return false;
      state = std::make_unique<typename Kind::state_type>();
      return true;
    });
  }
  return *state;
}

void visit_fields(optim::OptimizerParamState& state, const field_visitor& visitor) {
  any_kind([&]<typename Kind>(Kind) {
    auto* const known = dynamic_cast<typename Kind::state_type*>(&state);
    if (known != nullptr) visit(*known, visitor);
    return known != nullptr;
  });
}

}  // namespace ddprun::worker
