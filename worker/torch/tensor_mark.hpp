// A tensor mark tells later whether its tensor was written to since, or was given other memory: by
// LibTorch's version counter and the place of the elements. It keeps the memory that the tensor
// had.
//
// A write that LibTorch does not count is not seen: one through a raw pointer, or through data().
//
// Thread rule: that of the tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>

namespace ddprun::worker {

class tensor_mark {
 public:
  explicit tensor_mark(const at::Tensor& tensor);
  // Of the same tensor: it is as it was. Errors: LibTorch's.
  bool fits(const at::Tensor& tensor) const;

 private:
  std::int64_t version_ = 0;
  const void* address_ = nullptr;
  c10::Storage memory_;
};

}  // namespace ddprun::worker
