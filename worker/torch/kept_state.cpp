#include "worker/torch/kept_state.hpp"

#include "worker/snapshot/tensors_by_name.hpp"

#include <ATen/core/grad_mode.h>

#include <charconv>
#include <cstdint>
#include <stdexcept>

namespace ddprun::worker {
namespace {

const std::string kept_prefix = "kept.";

// The only state of a scheduler: its learning rates are in the optimizer.
struct open_scheduler : torch::optim::LRScheduler {
  static unsigned& steps_of(torch::optim::LRScheduler& scheduler) {
    return scheduler.*(&open_scheduler::step_count_);
  }
};

// `what` is what it counts, for the text of an error.
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

std::vector<kept_state::kept_tensor> kept_state::tensors() const {
  std::vector<kept_tensor> all;
  for (const auto& [name, tensor] : tensors_)
    all.push_back({name, *tensor, tensor, false, false});
  for (const auto& [name, module] : modules_) {
    for (const auto& each : module->named_parameters())
      all.push_back({name + "." + each.key(), each.value(), nullptr, false, false});
    for (const auto& each : module->named_buffers())
      all.push_back({name + "." + each.key(), each.value(), nullptr, false, true});
  }
  for (const auto& [name, average] : averages_) {
    for (const auto& each : average->tensors())
      all.push_back({name + "." + each.name, each.average, nullptr, true, each.is_buffer});
  }
  return all;
}

text_map kept_state::texts() const {
  text_map all;
  for (const auto& [name, each] : texts_)
    all[name] = each.get();
  return all;
}

void kept_state::put_back(const text_map& texts) const {
  for (const auto& [name, text] : texts) {
    const auto& kept = texts_.at(name);
    if (kept.get() != text) kept.set(text);
  }
}

void kept_state::add_to(snapshot_part& part) const {
  for (const auto& [name, average] : averages_) {
    if (average->is_swapped_in()) {
      throw std::logic_error("'" + name +
                             "' is swapped into the model: a snapshot would have the one for the "
                             "other; end the scope of swap_in() first");
    }
  }
  for (const auto& each : tensors()) {
    part.tensors.push_back(view_of(each.name, each.tensor));
    part.tensors.back().may_be_late = each.is_average;
    part.tensors.back().is_rank_0s = each.is_buffer;
  }
  part.values.merge(texts());
}

void kept_state::load(const snapshot_part& part, const std::string& path) const {
  const auto mine = tensors();
  const auto there = by_name(part);
  std::vector<const tensor_view*> found;
  for (const auto& each : mine) {
    const auto& name = each.name;
    const auto& tensor = each.tensor;
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
    at::Tensor tensor = mine[index].tensor;
    tensor.copy_(tensor_of(*found[index]));
  }
  for (const auto& [name, each] : texts_)
    each.set(part.values.find(name)->second);
}

}  // namespace ddprun::worker
