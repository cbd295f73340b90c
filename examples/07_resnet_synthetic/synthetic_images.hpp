// Images that need no download: noise with a coarse pattern for each class, so that there is
// something to learn. An image depends on its index alone, on every rank.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace resnet_synthetic {

class synthetic_images {
 public:
  // `first` is the index of the first image; ranges that do not overlap give different images.
  synthetic_images(std::size_t count, std::int64_t size, std::int64_t classes, std::uint64_t first);

  struct batch {
    torch::Tensor images;  // [N, 3, size, size]
    torch::Tensor labels;  // [N]
  };
  batch load(std::span<const std::size_t> indices) const;

  std::size_t count() const { return count_; }

 private:
  std::size_t count_;
  std::int64_t size_;
  std::int64_t classes_;
  std::uint64_t first_;
  torch::Tensor patterns_;  // [classes, 3, 4, 4]
};

}  // namespace resnet_synthetic
