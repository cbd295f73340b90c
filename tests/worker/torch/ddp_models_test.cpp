// Tests models that are not a simple chain of layers.
//
// Use REQUIRE only: LibTorch defines CHECK as a macro that ends the program.
#include "tests/support/catch.hpp"
#include "tests/worker/torch/ranks.hpp"
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/process_group.hpp"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <sstream>

namespace ddprun::tests {
namespace {

using worker::distributed_data_parallel;
using worker::environment;
using worker::process_group;

// One layer under two names, and one that averages over the batch.
struct SharingNetImpl : torch::nn::Module {
  SharingNetImpl()
      : first(register_module("first", torch::nn::Linear(4, 4))),
        norm(register_module("norm", torch::nn::BatchNorm1d(4))),
        again(register_module("again", first)) {}
  torch::Tensor forward(torch::Tensor values) {
    return again->forward(norm->forward(first->forward(values)));
  }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear again;
};
TORCH_MODULE(SharingNet);

struct WordsImpl : torch::nn::Module {
  WordsImpl()
      : table(register_module(
            "table", torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 3).sparse(true)))) {}
  torch::Tensor forward(torch::Tensor words) { return table->forward(words); }
  torch::nn::Embedding table;
};
TORCH_MODULE(Words);

// A layer of the program's own whose backward pass throws.
struct failing : torch::autograd::Function<failing> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, torch::Tensor value) {
    return value.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list) {
    throw std::domain_error("a gradient of no meaning");
  }
};

torch::Tensor inputs_of(const environment& here) {
  return torch::arange(24, torch::kFloat).reshape({6, 4}) * (1.0 + here.rank);
}

std::string kind_of_error(const std::function<void()>& work) {
  try {
    work();
  } catch (const worker::process_group_error& error) {
    return std::string("the group's: ") + error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a parameter that two layers share is averaged once", "[torch]") {
  const auto said = run_ranks(2, [](const environment& here) -> std::string {
    auto group = process_group::join(here);
    torch::manual_seed(here.rank);
    SharingNet net;
    distributed_data_parallel parallel(group, *net);
    for (int step = 0; step < 2; ++step) {
      parallel.zero_grad();
      parallel.backward(parallel.forward(net, inputs_of(here)).pow(2).sum());
    }
    const auto sum = net->first->weight.grad().clone();
    auto total = sum.clone();
    group.all_reduce_sum(total);
    return torch::equal(total, sum * 2) ? "equal" : "apart";
  });
  REQUIRE(said == std::vector<std::string>(2, "equal"));
}

TEST_CASE("gradients of an embedding may be sparse", "[torch]") {
  const auto said = run_ranks(2, [](const environment& here) -> std::string {
    auto group = process_group::join(here);
    Words net;
    distributed_data_parallel parallel(group, *net);
    std::ostringstream text;
    for (int step = 0; step < 2; ++step) {
      parallel.zero_grad();
      const auto words = torch::tensor({1, 2 + static_cast<int>(here.rank)}, torch::kLong);
      parallel.backward(parallel.forward(net, words).sum());
      const auto gradient = net->table->weight.grad();
      text << gradient.is_sparse() << ' ';
      for (int row = 1; row < 4; ++row)
        text << gradient.to_dense()[row][0].item<float>() << ' ';
    }
    return text.str();
  });
  REQUIRE(said == std::vector<std::string>(2, "1 1 0.5 0.5 1 1 0.5 0.5 "));
}

TEST_CASE("a model without trainable parameters is refused", "[torch]") {
  const auto said = run_ranks(1, [](const environment& here) -> std::string {
    auto group = process_group::join(here);
    torch::nn::Linear net(4, 2);
    for (auto& parameter : net->parameters())
      parameter.set_requires_grad(false);
    return kind_of_error([&] { distributed_data_parallel parallel(group, *net); });
  });
  REQUIRE(said[0] ==
          "distributed_data_parallel: no parameter of the model requires a gradient: there is "
          "nothing to average, use the model as it is");
}

TEST_CASE("an error of the program's own backward pass is passed on unchanged", "[torch]") {
  const auto said = run_ranks(1, [](const environment& here) -> std::string {
    auto group = process_group::join(here);
    torch::nn::Linear net(4, 2);
    distributed_data_parallel parallel(group, *net);
    std::string text = kind_of_error(
        [&] { parallel.backward(failing::apply(parallel.forward(net, inputs_of(here))).sum()); });
    // An error of LibTorch's that does not concern the group: a loss of two elements.
    const auto loss = net->forward(inputs_of(here)).sum(0);
    return text + "; " + kind_of_error([&] { parallel.backward(loss); });
  });
  INFO(said[0]);
  REQUIRE(said[0].starts_with("a gradient of no meaning; grad can be implicitly created"));
}

TEST_CASE("a warm-up restores buffers and random generators", "[torch]") {
  const auto said = run_ranks(2, [](const environment& here) -> std::string {
    auto group = process_group::join(here);
    torch::manual_seed(3);
    SharingNet net;
    distributed_data_parallel parallel(group, *net);
    std::vector<torch::Tensor> before;
    for (const auto& buffer : net->buffers())
      before.push_back(buffer.clone());
    torch::manual_seed(17 + here.rank);
    const auto expected = torch::randn({4});
    torch::manual_seed(17 + here.rank);
    parallel.warm_up([&] { return parallel.forward(net, torch::randn({6, 4})).sum(); });
    std::string text = torch::equal(torch::randn({4}), expected) ? "same numbers" : "others";
    for (std::size_t at = 0; at < before.size(); ++at) {
      if (!torch::equal(net->buffers()[at], before[at])) text += ", a buffer has changed";
    }
    for (const auto& parameter : net->parameters()) {
      if (parameter.grad().defined()) text += ", a gradient is left";
    }
    return text;
  });
  REQUIRE(said == std::vector<std::string>(2, "same numbers"));
}

}  // namespace ddprun::tests
