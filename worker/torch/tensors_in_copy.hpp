// The tensors that a snapshot copies while the program goes on (snapshots::begin_save), and whether
// the program has changed one of them meanwhile. Their memory stays as long as they are here, also
// where the program gives a tensor other memory, or lets go of it.
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
  // The name of the first one that is not as it was when it was added; empty: all are. Errors:
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
