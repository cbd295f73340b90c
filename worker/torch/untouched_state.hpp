// Restores what a discarded pass changes besides gradients: a model's buffers, and the random
// generators of the devices that it is on.
//
// Thread rule: that of the model. Errors: LibTorch's.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace ddprun::worker {

class untouched_state {
 public:
  explicit untouched_state(const torch::nn::Module& module);
  void put_back() const;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;        // with the previous content
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;  // with the previous state
};

}  // namespace ddprun::worker
