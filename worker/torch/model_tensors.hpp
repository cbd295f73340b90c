// The parameters of a model as gradients are averaged: each once, and which have sparse gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace ddprun::worker {

// In the order of named_parameters(), which has one that several modules share several times: here
// once, by its first name, as in Python.
std::vector<std::pair<std::string, at::Tensor>> parameters_once(const torch::nn::Module& module);

// For each of `parameters`: whether it is the table of an Embedding or EmbeddingBag with
// sparse(true), which is where LibTorch makes sparse gradients.
std::vector<bool> which_are_sparse(torch::nn::Module& module,
                                   const std::vector<at::Tensor>& parameters);

}  // namespace ddprun::worker
