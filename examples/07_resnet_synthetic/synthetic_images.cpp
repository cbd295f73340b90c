#include "examples/07_resnet_synthetic/synthetic_images.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/functional/upsampling.h>

#include <vector>

namespace resnet_synthetic {
namespace {

namespace functional = torch::nn::functional;

constexpr std::uint64_t seed_of_patterns = 1;
constexpr std::int64_t pattern_size = 4;

}  // namespace

synthetic_images::synthetic_images(std::size_t count, std::int64_t size, std::int64_t classes,
                                   std::uint64_t first)
    : count_(count), size_(size), classes_(classes), first_(first) {
  patterns_ = torch::randn({classes, 3, pattern_size, pattern_size},
                           at::detail::createCPUGenerator(seed_of_patterns));
}

synthetic_images::batch synthetic_images::load(std::span<const std::size_t> indices) const {
  std::vector<torch::Tensor> noise;
  std::vector<std::int64_t> labels;
  auto generator = at::detail::createCPUGenerator();
  for (const std::size_t index : indices) {
    generator.set_current_seed(first_ + index);
    noise.push_back(torch::randn({3, size_, size_}, generator));
    labels.push_back(static_cast<std::int64_t>(index) % classes_);
  }
  batch made;
  made.labels = torch::tensor(labels, torch::kLong);
  made.images = torch::stack(noise);
  made.images += functional::interpolate(
      patterns_.index_select(0, made.labels),
      functional::InterpolateFuncOptions().size(std::vector<std::int64_t>{size_, size_}));
  return made;
}

}  // namespace resnet_synthetic
