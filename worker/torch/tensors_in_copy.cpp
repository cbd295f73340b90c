#include "worker/torch/tensors_in_copy.hpp"

#include <utility>

namespace ddprun::worker {

void tensors_in_copy::add(std::string name, const at::Tensor& tensor) {
  all_.push_back({std::move(name), tensor, tensor_mark(tensor)});
}

std::string tensors_in_copy::changed() const {
  for (const auto& each : all_) {
    if (!each.mark.fits(each.tensor)) return each.name;
  }
  return "";
}

}  // namespace ddprun::worker
