// Runs twenty steps of a small network on each of the launcher's ranks, in every mode of
// distributed_data_parallel, with an average of its weights. tests/interop/ddp_steps.py is the same
// in Python; the test compares the results of both.
//
//   ddp_steps FOLDER        // writes lines "mode name values..." to FOLDER/RANK
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/exponential_moving_average.hpp"
#include "worker/torch/model_tensors.hpp"
#include "worker/torch/process_group.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cstdio>
#include <fstream>
#include <iomanip>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace {

using namespace ddprun::worker;

constexpr int steps = 20;
constexpr std::int64_t batch = 6;

using answer = std::pair<torch::Tensor, std::optional<torch::Tensor>>;

struct network : torch::nn::Module {
  // `uses_all` includes the part that some passes leave out.
  virtual answer forward(torch::Tensor values, bool uses_all) = 0;
};

struct Net : network {
  Net()
      : first(register_module("first", torch::nn::Linear(8, 16))),
        norm(register_module("norm", torch::nn::BatchNorm1d(16))),
        middle(register_module("middle", torch::nn::Linear(16, 16))),
        last(register_module("last", torch::nn::Linear(16, 4))) {}
  answer forward(torch::Tensor values, bool uses_all) override {
    values = torch::relu(norm->forward(first->forward(values)));
    if (uses_all) values = torch::relu(middle->forward(values));
    return {last->forward(values), std::nullopt};
  }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear middle;
  torch::nn::Linear last;
};

// Images of 2x4 pixels, with a BatchNorm2d.
struct Convolutional : network {
  Convolutional()
      : first(register_module("first",
                              torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(4))),
        last(register_module("last", torch::nn::Linear(32, 4))) {}
  answer forward(torch::Tensor values, bool) override {
    values = torch::relu(norm->forward(first->forward(values.reshape({-1, 1, 2, 4}))));
    return {last->forward(values.flatten(1)), std::nullopt};
  }
  torch::nn::Conv2d first;
  torch::nn::BatchNorm2d norm;
  torch::nn::Linear last;
};

// One layer used twice, under two names.
struct Sharing : network {
  Sharing()
      : first(register_module("first", torch::nn::Linear(8, 8))),
        again(register_module("again", first)),
        last(register_module("last", torch::nn::Linear(8, 4))) {}
  answer forward(torch::Tensor values, bool) override {
    values = torch::relu(again->forward(torch::relu(first->forward(values))));
    return {last->forward(values), std::nullopt};
  }
  torch::nn::Linear first;
  torch::nn::Linear again;
  torch::nn::Linear last;
};

struct Words : network {
  Words()
      : table(register_module(
            "table", torch::nn::Embedding(torch::nn::EmbeddingOptions(101, 8).sparse(true)))),
        last(register_module("last", torch::nn::Linear(8, 4))) {}
  answer forward(torch::Tensor values, bool) override {
    const auto words = (values * 101).round().to(torch::kLong);
    return {last->forward(table->forward(words).mean(1)), std::nullopt};
  }
  torch::nn::Embedding table;
  torch::nn::Linear last;
};

// Layers in float32, then in float64.
struct Mixed : network {
  Mixed()
      : first(register_module("first", torch::nn::Linear(8, 16))),
        last(register_module("last", torch::nn::Linear(16, 4))) {
    last->to(torch::kDouble);
  }
  answer forward(torch::Tensor values, bool) override {
    return {last->forward(torch::relu(first->forward(values)).to(torch::kDouble)), std::nullopt};
  }
  torch::nn::Linear first;
  torch::nn::Linear last;
};

struct TwoHeads : network {
  TwoHeads()
      : first(register_module("first", torch::nn::Linear(8, 16))),
        left(register_module("left", torch::nn::Linear(16, 4))),
        right(register_module("right", torch::nn::Linear(16, 4))) {}
  answer forward(torch::Tensor values, bool uses_all) override {
    values = torch::relu(first->forward(values));
    answer both{left->forward(values), std::nullopt};
    if (uses_all) both.second = right->forward(values);
    return both;
  }
  torch::nn::Linear first;
  torch::nn::Linear left;
  torch::nn::Linear right;
};

std::shared_ptr<network> network_of(const std::string& way) {
  if (way.starts_with("conv")) return std::make_shared<Convolutional>();
  if (way == "shared") return std::make_shared<Sharing>();
  if (way == "sparse") return std::make_shared<Words>();
  if (way == "mixed") return std::make_shared<Mixed>();
  if (way.starts_with("outputs")) return std::make_shared<TwoHeads>();
  return std::make_shared<Net>();
}

// Integers divided by 101, which are the same in every language.
torch::Tensor values_of(std::int64_t rank, std::int64_t step) {
  auto values = torch::empty({batch, 8});
  for (std::int64_t row = 0; row < batch; ++row) {
    for (std::int64_t column = 0; column < 8; ++column) {
      const auto number = (row * 31 + column * 17 + rank * 13 + step * 7 + row * column) % 101;
      values[row][column] = static_cast<float>(number) / 101.0F;
    }
  }
  return values;
}

torch::Tensor labels_of(std::int64_t rank, std::int64_t step) {
  auto labels = torch::empty({batch}, torch::kLong);
  for (std::int64_t row = 0; row < batch; ++row)
    labels[row] = (row + rank + step) % 4;
  return labels;
}

// The parameters in the order of Python's parameters().
std::vector<torch::Tensor> trained_of(const torch::nn::Module& net) {
  std::vector<torch::Tensor> all;
  for (const auto& [name, parameter] : parameters_once(net))
    all.push_back(parameter);
  return all;
}

void write(std::ofstream& to, const std::string& mode, const std::string& name,
           const std::vector<torch::Tensor>& tensors) {
  to << mode << ' ' << name << std::setprecision(9);
  for (const auto& tensor : tensors) {
    const auto dense = tensor.is_sparse() ? tensor.to_dense() : tensor;
    const auto flat = dense.detach().to(torch::kFloat).contiguous().flatten();
    for (std::int64_t at = 0; at < flat.numel(); ++at)
      to << ' ' << flat[at].item<float>();
  }
  to << '\n';
}

struct way {
  std::string name;
  distributed_data_parallel_options options;
};

std::vector<way> ways() {
  std::vector<way> all;
  const auto add = [&](const char* name) -> distributed_data_parallel_options& {
    all.push_back({name, {}});
    return all.back().options;
  };
  add("plain");
  auto& small = add("bucket_view");
  small.gradient_as_bucket_view = true;
  small.bucket_bytes_max = small.first_bucket_bytes_max = 1024;
  add("accumulate");
  add("unused").find_unused_parameters = true;
  add("static").static_graph = true;
  add("fp16").compression = gradient_compression::fp16;
  add("bf16").compression = gradient_compression::bf16;
  add("uneven");
  add("uneven_unused").find_unused_parameters = true;
  add("uneven_own_buffers").broadcast_buffers = false;  // rank 0 finishes last
  for (const char* name : {"conv", "shared", "sparse", "mixed", "outputs"})
    add(name);
  add("outputs_unused").find_unused_parameters = true;
  add("outputs_static").static_graph = true;
  return all;
}

void train(process_group& group, const way& how, std::ofstream& to) {
  const auto rank = static_cast<std::int64_t>(group.rank());
  torch::manual_seed(5 + group.rank());  // rank 0's first weights must win
  const auto net = network_of(how.name);
  distributed_data_parallel parallel(group, *net, how.options);
  const double momentum = how.name == "sparse" ? 0 : 0.9;
  torch::optim::SGD optimizer(trained_of(*net), torch::optim::SGDOptions(0.05).momentum(momentum));
  exponential_moving_average average(*net, {0.9, /*buffers=*/true});
  const bool accumulates = how.name == "accumulate";
  const bool is_uneven = how.name.starts_with("uneven");
  std::vector<torch::Tensor> losses;
  std::vector<torch::Tensor> gradients;
  const auto pass = [&](std::int64_t step) {
    const bool uses_all = how.name == "static"                 ? false
                          : how.options.find_unused_parameters ? (step + rank) % 2 == 0
                                                               : true;
    const auto [first, second] = parallel.forward(net, values_of(rank, step), uses_all);
    const auto labels = labels_of(rank, step);
    auto loss = torch::nn::functional::cross_entropy(first, labels);
    if (second) loss = loss + torch::nn::functional::cross_entropy(*second, labels);
    parallel.backward(loss);
    return loss;
  };
  const auto run = [&](int count) {
    for (int step = 0; step < count; ++step) {
      parallel.zero_grad();
      if (accumulates) {
        const auto scope = parallel.no_sync();
        pass(1000 + step);
      }
      losses.push_back(pass(step));
      optimizer.step();
      average.update();
    }
  };
  if (is_uneven) {
    const int most = static_cast<int>(group.world_size());
    const int own = static_cast<int>(rank);
    const int share = how.name == "uneven_own_buffers" ? most - own : own + 1;
    parallel.with_uneven_inputs([&] { run(5 * share); }, how.name == "uneven");
  } else {
    run(steps);
    for (const auto& parameter : trained_of(*net)) {
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    }
  }
  write(to, how.name, "losses", losses);
  write(to, how.name, "gradients", gradients);
  write(to, how.name, "parameters", trained_of(*net));
  write(to, how.name, "buffers", net->buffers());
  std::vector<torch::Tensor> averages;
  for (const auto& each : average.tensors()) {
    // PyTorch also averages integer buffers, and rounds the result down: compare floats only.
    if (each.average.is_floating_point()) averages.push_back(each.average);
  }
  write(to, how.name, "averages", averages);
}

}  // namespace

int main(int count, char** values) {
  if (count != 2) return std::fputs("usage: ddp_steps FOLDER\n", stderr), 2;
  try {
    torch::set_num_threads(1);
    auto group = process_group::init();
    std::ofstream to(std::string(values[1]) + "/" + std::to_string(group.rank()));
    for (const way& how : ways())
      train(group, how, to);
    group.close();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddp_steps: %s\n", error.what());
    return 1;
  }
}
