// The bytes of a tensor in a device's memory, which can come to host memory together with those of
// others: for many small tensors a copy of each takes far longer than their bytes.
//
// torch/pinned_staging is that of LibTorch's GPUs; which come together is small_copies.hpp's
// affair.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace ddprun::worker {

class device_bytes {
 public:
  struct wanted {
    std::shared_ptr<const device_bytes> from;
    char* to = nullptr;
  };
  virtual ~device_bytes() = default;
  // The device's number: what has the same can come together.
  virtual int device() const = 0;
  // Brings the bytes of all of these, which have this one's device, and has done so on return.
  // Errors: what the device throws.
  virtual void bring(std::span<const wanted> all) const = 0;
};

}  // namespace ddprun::worker
