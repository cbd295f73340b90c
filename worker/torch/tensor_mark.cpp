#include "worker/torch/tensor_mark.hpp"

namespace ddprun::worker {
namespace {

// Tensors made in inference mode have no counter.
std::int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor._version();
}

const void* first_element_of(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided ? tensor.const_data_ptr() : nullptr;
}

}  // namespace

tensor_mark::tensor_mark(const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  version_ = version_of(tensor);
  address_ = first_element_of(tensor);
  if (tensor.has_storage()) memory_ = tensor.storage();
}

bool tensor_mark::fits(const at::Tensor& tensor) const {
  if (!tensor.defined()) return address_ == nullptr;
  return version_of(tensor) == version_ && first_element_of(tensor) == address_;
}

}  // namespace ddprun::worker
