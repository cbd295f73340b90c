// A model's parameters, each listed once, and which of them have sparse gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace ddprun::worker {

// In the order of named_parameters(), which repeats a parameter that several modules share. Here it
// is listed once, under its first name, as in Python.
std::vector<std::pair<std::string, at::Tensor>> parameters_once(const torch::nn::Module& module);

// For each of `parameters`: whether it is the table of an Embedding or EmbeddingBag with
// sparse(true), the only modules of LibTorch with sparse gradients.
std::vector<bool> which_are_sparse(torch::nn::Module& module,
                                   const std::vector<at::Tensor>& parameters);

}  // namespace ddprun::worker
