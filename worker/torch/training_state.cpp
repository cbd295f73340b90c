#include "worker/torch/training_state.hpp"

#include "worker/snapshot/tensors_by_name.hpp"
#include "worker/torch/optimizer_fields.hpp"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

namespace ddprun::worker {
namespace {

constexpr std::size_t differences_max = 5;  // listed in one error
constexpr const char* rates_name = "optimizer.lr";
const std::string model_prefix = "model.";
const std::string state_prefix = "optimizer.state.";

struct named_tensor {
  std::string name;
  at::Tensor tensor;
  bool is_parameter = true;  // false for a buffer
};

std::vector<named_tensor> tensors_of(const torch::nn::Module& model) {
  std::vector<named_tensor> all;
  for (const auto& each : model.named_parameters())
    all.push_back({model_prefix + each.key(), each.value(), true});
  for (const auto& each : model.named_buffers())
    all.push_back({model_prefix + each.key(), each.value(), false});
  return all;
}

// In the order of Python's state_dict: all groups, one after the other.
std::vector<at::Tensor> parameters_of(torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> all;
  for (const auto& group : optimizer.param_groups())
    all.insert(all.end(), group.params().begin(), group.params().end());
  return all;
}

std::string parameter_prefix(std::size_t parameter) {
  return state_prefix + std::to_string(parameter) + ".";
}

// What the optimizer keeps of each parameter, under its names in a snapshot.
template <typename OnTensor, typename OnNumber>
void visit_state(torch::optim::Optimizer& optimizer, OnTensor on_tensor, OnNumber on_number) {
  const auto parameters = parameters_of(optimizer);
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    auto* const of = state_of(optimizer, parameters[index]);
    if (of == nullptr) continue;
    field_visitor visitor;
    visitor.on_tensor = [&](std::string_view field, at::Tensor& value) {
      if (value.defined()) on_tensor(parameter_prefix(index) + std::string(field), value);
    };
    visitor.on_number = [&](std::string_view field, std::int64_t& value) {
      on_number(parameter_prefix(index) + std::string(field), value);
    };
    visit_fields(*of, visitor);
  }
}

// Python's optimizers count steps in a tensor of one float.
tensor_view view_of_number(std::string name, std::int64_t number) {
  tensor_view view;
  view.name = std::move(name);
  view.type = element_type::f32;
  view.copy = [value = static_cast<float>(number)](char* to) {
    std::memcpy(to, &value, sizeof value);
  };
  return view;
}

std::map<std::string, at::Generator> generators() {
  std::map<std::string, at::Generator> all;
  all.emplace("generator.cpu", at::globalContext().defaultGenerator(at::kCPU));
  if (at::hasCUDA()) all.emplace("generator.cuda", at::globalContext().defaultGenerator(at::kCUDA));
  return all;
}

std::string text_of(const tensor_view& tensor) {
  const std::string text = to_text(static_cast<const tensor_description&>(tensor));
  return text.substr(tensor.name.size() + 1);
}

bool has_any(const tensors_by_name& tensors, const std::string& prefix) {
  const auto first = tensors.lower_bound(prefix);
  return first != tensors.end() && first->first.starts_with(prefix);
}

// Compares the program's tensors with those of a snapshot, and collects the differences.
class comparison {
 public:
  explicit comparison(tensors_by_name there) : left_(std::move(there)) {}

  void expect(const tensor_view& here) {
    const auto found = left_.find(here.name);
    if (found == left_.end()) {
      differences_.push_back("it has no '" + here.name + "', " + text_of(here) + " here");
      return;
    }
    if (found->second->type != here.type || found->second->shape != here.shape) {
      differences_.push_back("'" + here.name + "' is " + text_of(*found->second) + " there and " +
                             text_of(here) + " here");
    }
    left_.erase(found);
  }
  // The state of a parameter, if there is any, has its shape and type, or is a single number.
  void expect_state(const std::string& prefix, const at::Tensor& parameter,
                    const std::vector<field_name>& fields) {
    if (!has_any(left_, prefix)) return;
    for (const auto& field : fields) {
      tensor_view here = view_of(prefix + std::string(field.name), parameter);
      const auto found = left_.find(here.name);
      if (found == left_.end() && !field.is_required) continue;
      if (field.is_number) {
        here.shape.clear();
        here.type = element_type::f32;
        const bool is_whole = found != left_.end() && found->second->type == element_type::i64;
        if (is_whole) here.type = element_type::i64;
      }
      expect(here);
    }
  }
  // Reports tensors under this prefix that the program does not have; other names may be its own.
  void expect_no_more(const std::string& prefix) {
    for (const auto& [name, tensor] : left_) {
      if (name.starts_with(prefix)) {
        differences_.push_back("it has '" + std::string(name) + "', " + text_of(*tensor) +
                               ", which the program does not have");
      }
    }
  }
  void require_none(const std::string& path) const {
    if (differences_.empty()) return;
    std::string text = "snapshot " + path + " is of another model or optimizer: ";
    const std::size_t named = std::min(differences_.size(), differences_max);
    for (std::size_t at = 0; at < named; ++at)
      text += (at == 0 ? "" : "; ") + differences_[at];
    if (differences_.size() > named) {
      text += "; and " + std::to_string(differences_.size() - named) + " more differences";
    }
    throw training_state_error(text);
  }

 private:
  tensors_by_name left_;
  std::vector<std::string> differences_;
};

std::vector<double> rates_in(const snapshot_part& part) {
  const auto found = part.values.find(rates_name);
  if (found == part.values.end()) return {};
  const auto json = nlohmann::json::parse(found->second, nullptr, false);
  try {
    return json.get<std::vector<double>>();
  } catch (const nlohmann::json::exception&) {
    throw training_state_error(std::string(rates_name) + " in the snapshot is '" + found->second +
                               "', which is not a list of numbers");
  }
}

void fill(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
          const tensors_by_name& there, const std::string& prefix) {
  if (!has_any(there, prefix)) {
    // The optimizer had made no step with this parameter.
    optimizer.state().erase(parameter.unsafeGetTensorImpl());
    return;
  }
  field_visitor visitor;
  visitor.on_tensor = [&](std::string_view field, at::Tensor& value) {
    const auto found = there.find(prefix + std::string(field));
    value = found == there.end() ? at::Tensor()
                                 : tensor_of(*found->second).to(parameter.device(), true).clone();
  };
  visitor.on_number = [&](std::string_view field, std::int64_t& value) {
    const auto found = there.find(prefix + std::string(field));
    if (found != there.end()) value = tensor_of(*found->second).item().toLong();
  };
  visit_fields(make_state(optimizer, parameter), visitor);
}

}  // namespace

training_state::training_state(torch::nn::Module& model, torch::optim::Optimizer& optimizer)
    : model_(model), optimizer_(optimizer) {
  if (fields_of(optimizer).empty()) {
    throw training_state_error(
        "the state of this optimizer cannot be saved: use Adam, AdamW, SGD, RMSprop or Adagrad");
  }
}

std::vector<std::pair<std::string, at::Tensor>> training_state::late_tensors() const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& each : tensors_of(model_)) {
    if (each.is_parameter) all.emplace_back(each.name, each.tensor);
  }
  visit_state(
      optimizer_,
      [&](std::string name, const at::Tensor& value) { all.emplace_back(std::move(name), value); },
      [](const std::string&, std::int64_t) {});
  return all;
}

snapshot_state training_state::view() const {
  snapshot_state state;
  auto& tensors = state.replicated.tensors;
  for (const auto& each : tensors_of(model_)) {
    tensors.push_back(view_of(each.name, each.tensor));
    tensors.back().may_be_late = each.is_parameter;
    tensors.back().is_rank_0s = !each.is_parameter;
  }
  visit_state(
      optimizer_,
      [&](std::string name, const at::Tensor& value) {
        tensors.push_back(view_of(std::move(name), value));
        tensors.back().may_be_late = true;
      },
      [&](std::string name, std::int64_t value) {
        tensors.push_back(view_of_number(std::move(name), value));
      });
  std::vector<double> rates;
  for (const auto& group : optimizer_.param_groups())
    rates.push_back(group.options().get_lr());
  state.replicated.values[rates_name] = nlohmann::json(rates).dump();
  for (auto& [name, generator] : generators()) {
    at::Generator of = generator;
    const std::lock_guard lock(of.mutex());
    const at::Tensor bytes = of.get_state();
    tensor_view view = view_of(name, bytes);
    // Nobody else owns these bytes, so the view must.
    view.copy = [bytes](char* to) { std::memcpy(to, bytes.const_data_ptr(), bytes.nbytes()); };
    state.own.tensors.push_back(std::move(view));
  }
  return state;
}

void training_state::load(const resumed_snapshot& from) {
  const at::NoGradGuard no_grad;
  const auto there = by_name(from.replicated);
  comparison compared(there);
  const auto mine = tensors_of(model_);
  for (const auto& each : mine)
    compared.expect(view_of(each.name, each.tensor));
  compared.expect_no_more(model_prefix);
  const auto parameters = parameters_of(optimizer_);
  const auto fields = fields_of(optimizer_);
  for (std::size_t index = 0; index < parameters.size(); ++index)
    compared.expect_state(parameter_prefix(index), parameters[index], fields);
  compared.expect_no_more(state_prefix);
  const auto rates = rates_in(from.replicated);
  // Nothing has been changed so far: an error leaves the program's state as it was.
  compared.require_none(from.path);
  auto& groups = optimizer_.param_groups();
  if (rates.size() != groups.size()) {
    throw training_state_error("snapshot " + from.path + " has " + std::to_string(rates.size()) +
                               " learning rates in '" + rates_name + "', the optimizer " +
                               std::to_string(groups.size()) + " parameter groups");
  }
  for (const auto& each : mine)
    each.tensor.copy_(tensor_of(*there.at(each.name)));
  for (std::size_t index = 0; index < parameters.size(); ++index)
    fill(optimizer_, parameters[index], there, parameter_prefix(index));
  for (std::size_t group = 0; group < groups.size(); ++group)
    groups[group].options().set_lr(rates[group]);
  if (!from.own) return;
  for (auto& [name, generator] : generators()) {
    const auto* const found = from.own->find(name);
    if (found == nullptr) continue;
    at::Generator of = generator;
    const std::lock_guard lock(of.mutex());
    of.set_state(tensor_of(*found).clone());
  }
}

}  // namespace ddprun::worker
