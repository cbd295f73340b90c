// Puts together which small tensors of a device come to host memory with one copy: as many as fit
// into one buffer of bounded size.
//
// Thread rule: one thread. Ownership: it keeps the tensors until their copy was made.
#pragma once

#include "worker/snapshot/device_bytes.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace ddprun::worker {

// A copy has at most so many bytes, of at most so many tensors.
constexpr std::size_t small_copies_bytes_max = std::size_t{1} << 20;
constexpr std::size_t small_copies_count_max = 1024;
// A tensor of more has a copy of its own, which takes no longer for that.
constexpr std::size_t small_tensor_bytes_max = std::size_t{256} << 10;

class small_copies {
 public:
  // `take` is given each copy to make, in the order in which they are full.
  using copy = std::function<void()>;
  explicit small_copies(std::function<void(copy)> take) : take_(std::move(take)) {}

  // `bytes`: from 1 to small_tensor_bytes_max.
  void add(std::shared_ptr<const device_bytes> from, std::size_t bytes, char* to);
  // Gives what is not full, too.
  void finish();

 private:
  struct batch {
    std::vector<device_bytes::wanted> tensors;
    std::size_t bytes = 0;
  };
  void give(batch& full);

  std::function<void(copy)> take_;
  std::map<int, batch> open_;  // by device
};

}  // namespace ddprun::worker
