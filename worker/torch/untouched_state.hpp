// What a pass for nothing changes besides gradients, kept so that it can be put back: a model's
// buffers, and the random generators of the devices that it is on.
//
// Thread rule: that of the model.
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
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;        // and what was in each
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;  // and its state
};

}  // namespace ddprun::worker
