#include "examples/07_resnet_synthetic/resnet.hpp"

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/init.h>

#include <utility>

namespace resnet_synthetic {
namespace {

namespace nn = torch::nn;
namespace functional = torch::nn::functional;

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                       std::int64_t stride = 1) {
  return nn::Conv2d(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

torch::Tensor rectified(torch::Tensor values) {
  return values.relu_();
}

// If a block changes the shape, its input goes through this convolution before it is added.
nn::Sequential projection(std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (in == out && stride == 1) return nullptr;
  auto both = nn::Sequential(convolution(in, out, 1, stride));
  both->push_back(nn::BatchNorm2d(out));
  return both;
}

struct BasicBlockImpl : nn::Module {
  static constexpr std::int64_t expansion = 1;

  BasicBlockImpl(std::int64_t in, std::int64_t width, std::int64_t stride)
      : downsample(projection(in, width, stride)) {
    conv1 = register_module("conv1", convolution(in, width, 3, stride));
    bn1 = register_module("bn1", nn::BatchNorm2d(width));
    conv2 = register_module("conv2", convolution(width, width, 3));
    bn2 = register_module("bn2", nn::BatchNorm2d(width));
    if (downsample) register_module("downsample", downsample);
  }

  torch::Tensor forward(torch::Tensor input) {
    auto values = rectified(bn1->forward(conv1->forward(input)));
    values = bn2->forward(conv2->forward(values));
    return rectified(values += downsample ? downsample->forward(input) : input);
  }

  nn::Sequential downsample;
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
};
TORCH_MODULE(BasicBlock);

struct BottleneckImpl : nn::Module {
  static constexpr std::int64_t expansion = 4;

  BottleneckImpl(std::int64_t in, std::int64_t width, std::int64_t stride)
      : downsample(projection(in, width * expansion, stride)) {
    conv1 = register_module("conv1", convolution(in, width, 1));
    bn1 = register_module("bn1", nn::BatchNorm2d(width));
    conv2 = register_module("conv2", convolution(width, width, 3, stride));
    bn2 = register_module("bn2", nn::BatchNorm2d(width));
    conv3 = register_module("conv3", convolution(width, width * expansion, 1));
    bn3 = register_module("bn3", nn::BatchNorm2d(width * expansion));
    if (downsample) register_module("downsample", downsample);
  }

  torch::Tensor forward(torch::Tensor input) {
    auto values = rectified(bn1->forward(conv1->forward(input)));
    values = rectified(bn2->forward(conv2->forward(values)));
    values = bn3->forward(conv3->forward(values));
    return rectified(values += downsample ? downsample->forward(input) : input);
  }

  nn::Sequential downsample;
  nn::Conv2d conv1{nullptr}, conv2{nullptr}, conv3{nullptr};
  nn::BatchNorm2d bn1{nullptr}, bn2{nullptr}, bn3{nullptr};
};
TORCH_MODULE(Bottleneck);

}  // namespace

ResNetImpl::ResNetImpl(const architecture& built, std::int64_t classes) {
  const auto& [name, is_bottleneck, blocks] = built;
  conv1 = register_module("conv1",
                          nn::Conv2d(nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)));
  bn1 = register_module("bn1", nn::BatchNorm2d(64));
  layer1 = register_module("layer1", make_layer(is_bottleneck, 64, blocks[0], 1));
  layer2 = register_module("layer2", make_layer(is_bottleneck, 128, blocks[1], 2));
  layer3 = register_module("layer3", make_layer(is_bottleneck, 256, blocks[2], 2));
  layer4 = register_module("layer4", make_layer(is_bottleneck, 512, blocks[3], 2));
  fc = register_module("fc", nn::Linear(channels_, classes));
  initialize();
}

nn::Sequential ResNetImpl::make_layer(bool is_bottleneck, std::int64_t width, std::int64_t blocks,
                                      std::int64_t stride) {
  nn::Sequential layer;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t step = block == 0 ? stride : 1;
    if (is_bottleneck) {
      layer->push_back(Bottleneck(channels_, width, step));
      channels_ = width * BottleneckImpl::expansion;
    } else {
      layer->push_back(BasicBlock(channels_, width, step));
      channels_ = width * BasicBlockImpl::expansion;
    }
  }
  return layer;
}

void ResNetImpl::initialize() {
  for (const auto& module : modules(/*include_self=*/false)) {
    if (const auto* convolution = module->as<nn::Conv2dImpl>()) {
      nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
    }
  }
}

torch::Tensor ResNetImpl::forward(torch::Tensor images) {
  auto values = rectified(bn1->forward(conv1->forward(images)));
  values = functional::max_pool2d(values, functional::MaxPool2dFuncOptions(3).stride(2).padding(1));
  values = layer4->forward(layer3->forward(layer2->forward(layer1->forward(values))));
  return fc->forward(values.mean({2, 3}));
}

}  // namespace resnet_synthetic
