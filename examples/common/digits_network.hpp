// A small convolutional network for pictures of 8x8 pixels: 9,658 parameters.
#pragma once

#include "examples/common/digits.hpp"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <string>

namespace examples {

struct NetworkImpl : torch::nn::Module {
  NetworkImpl();
  torch::Tensor forward(torch::Tensor images);

  torch::nn::Conv2d first{nullptr};
  torch::nn::Conv2d second{nullptr};
  torch::nn::Linear digit{nullptr};
};
TORCH_MODULE(Network);

// Tensors on the memory of the pictures, which must outlive them.
torch::Tensor images_of(digits& pictures);
torch::Tensor labels_of(digits& pictures);

// A checksum of all parameters: runs with equal checksums ended with the same bits.
std::string checksum(torch::nn::Module& model);

}  // namespace examples
