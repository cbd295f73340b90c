// The tensors that a snapshot copies while the program goes on (snapshots::begin_save), and a check
// whether the program has changed one of them meanwhile. It holds their memory, even if the program
// replaces or releases it.
//
// Thread rule: that of the model.
#pragma once

#include "worker/torch/tensor_mark.hpp"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace ddprun::worker {

class tensors_in_copy {
 public:
  void add(std::string name, const at::Tensor& tensor);
  // The name of the first tensor that has changed since it was added; empty if none has. Errors:
  // LibTorch's.
  std::string changed() const;
  void clear() { all_.clear(); }

 private:
  struct marked {
    std::string name;
    at::Tensor tensor;
    tensor_mark mark;
  };
  std::vector<marked> all_;
};

}  // namespace ddprun::worker
