#include "worker/torch/model_tensors.hpp"

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <set>

namespace ddprun::worker {
namespace {

void collect_sparse(torch::nn::Module& module, std::set<const void*>& tables) {
  if (const auto* const one = dynamic_cast<torch::nn::EmbeddingImpl*>(&module)) {
    if (one->options.sparse()) tables.insert(one->weight.unsafeGetTensorImpl());
  } else if (const auto* const bag = dynamic_cast<torch::nn::EmbeddingBagImpl*>(&module)) {
    if (bag->options.sparse()) tables.insert(bag->weight.unsafeGetTensorImpl());
  }
  // Do not use modules(): it throws if the model is not owned by a shared pointer.
  for (const auto& child : module.children())
    collect_sparse(*child, tables);
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> parameters_once(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second)
      all.emplace_back(item.key(), item.value());
  }
  return all;
}

std::vector<bool> which_are_sparse(torch::nn::Module& module,
                                   const std::vector<at::Tensor>& parameters) {
  std::set<const void*> tables;
  collect_sparse(module, tables);
  std::vector<bool> found;
  for (const auto& parameter : parameters)
    found.push_back(tables.contains(parameter.unsafeGetTensorImpl()));
  return found;
}

}  // namespace ddprun::worker
