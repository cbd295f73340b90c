// ResNet for images of 3 channels: "Deep Residual Learning for Image Recognition" (He et al. 2015).
// Parameters have the names of torchvision's, so that its state_dict fits, and its initial weights.
#pragma once

#include "examples/07_resnet_synthetic/architectures.hpp"

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

namespace resnet_synthetic {

struct ResNetImpl : torch::nn::Module {
  ResNetImpl(const architecture& built, std::int64_t classes);
  // [N, 3, H, W], at least 32 x 32; returns [N, classes], before the softmax.
  torch::Tensor forward(torch::Tensor images);

  torch::nn::Conv2d conv1{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr};
  torch::nn::Sequential layer1, layer2, layer3, layer4;
  torch::nn::Linear fc{nullptr};

 private:
  // `width` is the number of channels of the block's own convolutions.
  torch::nn::Sequential make_layer(bool is_bottleneck, std::int64_t width, std::int64_t blocks,
                                   std::int64_t stride);
  void initialize();

  std::int64_t channels_ = 64;  // of the next block's input
};
TORCH_MODULE(ResNet);

}  // namespace resnet_synthetic
