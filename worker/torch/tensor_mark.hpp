// A tensor mark can tell later whether its tensor was written to, or was given other memory, by
// LibTorch's version counter and the address of the elements. It holds the tensor's memory.
//
// It misses writes that LibTorch does not count: through a raw pointer, or through data().
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
  // True if the same tensor is unchanged. Errors: LibTorch's.
  bool fits(const at::Tensor& tensor) const;

 private:
  std::int64_t version_ = 0;
  const void* address_ = nullptr;
  c10::Storage memory_;
};

}  // namespace ddprun::worker
