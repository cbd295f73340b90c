#include "examples/common/digits_network.hpp"

#include "worker/snapshot/checksum.hpp"

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/pooling.h>

namespace examples {

namespace functional = torch::nn::functional;

NetworkImpl::NetworkImpl() {
  first =
      register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)));
  second =
      register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)));
  digit = register_module("digit", torch::nn::Linear(32 * 4 * 4, 10));
}

torch::Tensor NetworkImpl::forward(torch::Tensor images) {
  auto values = functional::relu(first->forward(images));
  values = functional::relu(second->forward(values));
  values = functional::max_pool2d(values, functional::MaxPool2dFuncOptions(2));
  return functional::log_softmax(digit->forward(values.flatten(1)), 1);
}

torch::Tensor images_of(digits& pictures) {
  const auto count = static_cast<std::int64_t>(pictures.labels.size());
  return torch::from_blob(pictures.images.data(), {count, 1, 8, 8}, torch::kFloat);
}

torch::Tensor labels_of(digits& pictures) {
  const auto count = static_cast<std::int64_t>(pictures.labels.size());
  return torch::from_blob(pictures.labels.data(), {count}, torch::kLong);
}

std::string checksum(torch::nn::Module& model) {
  ddprun::worker::checksum sum;
  for (const auto& parameter : model.parameters()) {
    const auto values = parameter.detach().contiguous();
    sum.add({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
  }
  return ddprun::worker::checksum_text(sum.value());
}

}  // namespace examples
