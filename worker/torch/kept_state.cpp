#include "worker/torch/kept_state.hpp"

#include "worker/snapshot/tensors_by_name.hpp"

#include <ATen/core/grad_mode.h>

#include <charconv>
#include <cstdint>
#include <stdexcept>

namespace ddprun::worker {
namespace {

const std::string kept_prefix = "kept.";

// A scheduler's only state: its learning rates are the optimizer's.
struct open_scheduler : torch::optim::LRScheduler {
  static unsigned& steps_of(torch::optim::LRScheduler& scheduler) {
    return scheduler.*(&open_scheduler::step_count_);
  }
};

// `what` it counts: for the text of an error.
template <typename Count>
Count parse_count(const char* what, const std::string& text) {
  Count count = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || rest != end) {
    throw training_state_error(std::string(what) + " in the snapshot are '" + text +
                               "', which is not a number");
  }
  return count;
}

}  // namespace

std::string kept_state::take(const std::string& name) {
  const std::string taken = kept_prefix + name;
  if (name.empty() || texts_.contains(taken) || tensors_.contains(taken) ||
      modules_.contains(taken)) {
    throw std::invalid_argument("keep: the name '" + name + "' is empty, or taken already");
  }
  return taken;
}

void kept_state::add(const std::string& name, at::Tensor& tensor) {
  tensors_.emplace(take(name), &tensor);
}

void kept_state::add(const std::string& name, torch::nn::Module& module) {
  modules_.emplace(take(name), &module);
}

void kept_state::add(const std::string& name, torch::optim::LRScheduler& scheduler) {
  add(
      name, [&scheduler] { return std::to_string(open_scheduler::steps_of(scheduler)); },
      [&scheduler](const std::string& value) {
        open_scheduler::steps_of(scheduler) = parse_count<unsigned>("a scheduler's steps", value);
      });
}

void kept_state::add(const std::string& name, exponential_moving_average& average) {
  add(
      name, [&average] { return std::to_string(average.updates()); },
      [&average](const std::string& value) {
        average.set_updates(parse_count<std::uint64_t>("an average's updates", value));
      });
  averages_.emplace(kept_prefix + name, &average);
}

void kept_state::add(const std::string& name, std::function<std::string()> to_text,
                     std::function<void(const std::string&)> from_text) {
  texts_.emplace(take(name), text{std::move(to_text), std::move(from_text)});
}

std::vector<std::pair<std::string, at::Tensor>> kept_state::tensors() const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& [name, tensor] : tensors_)
    all.emplace_back(name, *tensor);
  for (const auto& [name, module] : modules_) {
    for (const auto& each : module->named_parameters())
      all.emplace_back(name + "." + each.key(), each.value());
    for (const auto& each : module->named_buffers())
      all.emplace_back(name + "." + each.key(), each.value());
  }
  return all;
}

std::vector<std::pair<std::string, at::Tensor>> kept_state::averages() const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& [name, average] : averages_) {
    for (const auto& each : average->tensors())
      all.emplace_back(name + "." + each.name, each.average);
  }
  return all;
}

bool kept_state::is_alike(std::string_view tensor) const {
  for (const auto& [name, average] : averages_) {
    for (const auto& each : average->tensors()) {
      if (each.is_buffer && tensor == name + "." + each.name) return false;
    }
  }
  return true;
}

void kept_state::add_to(snapshot_part& part) const {
  for (const auto& [name, tensor] : tensors())
    part.tensors.push_back(view_of(name, tensor));
  for (const auto& [name, tensor] : averages()) {
    part.tensors.push_back(view_of(name, tensor));
    part.tensors.back().may_be_late = true;
  }
  for (const auto& [name, each] : texts_)
    part.values[name] = each.get();
}

void kept_state::load(const snapshot_part& part, const std::string& path) const {
  auto mine = tensors();
  const auto averaged = averages();
  mine.insert(mine.end(), averaged.begin(), averaged.end());
  const auto there = by_name(part);
  std::vector<const tensor_view*> found;
  for (const auto& [name, tensor] : mine) {
    const auto here = view_of(name, tensor);
    const auto at = there.find(name);
    found.push_back(at == there.end() ? nullptr : at->second);
    if (found.back() == nullptr || found.back()->type != here.type ||
        found.back()->shape != here.shape) {
      throw training_state_error(
          "snapshot " + path + " is of another program: it has " +
          (found.back() == nullptr ? "no '" + name + "'" : to_text(*found.back())) +
          ", here it is " + to_text(static_cast<const tensor_description&>(here)));
    }
  }
  for (const auto& [name, each] : texts_) {
    if (!part.values.contains(name)) {
      throw training_state_error("snapshot " + path + " is of another program: it has no '" + name +
                                 "'");
    }
  }
  const at::NoGradGuard no_grad;
  for (std::size_t index = 0; index < mine.size(); ++index) {
    at::Tensor tensor = mine[index].second;
    tensor.copy_(tensor_of(*found[index]));
  }
  for (const auto& [name, each] : texts_)
    each.set(part.values.find(name)->second);
}

}  // namespace ddprun::worker
