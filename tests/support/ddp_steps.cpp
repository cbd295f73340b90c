// Twenty steps of a small network on each of the launcher's ranks, in every way in which
// distributed_data_parallel works. tests/interop/ddp_steps.py is the same in Python; the test lays
// their figures side by side.
//
//   ddp_steps FOLDER        // writes FOLDER/RANK: "mode name values..." a line
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/process_group.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cstdio>
#include <fstream>
#include <iomanip>
#include <string>

namespace {

using namespace ddprun::worker;

constexpr int steps = 20;
constexpr std::int64_t batch = 6;

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", torch::nn::Linear(8, 16))),
        norm(register_module("norm", torch::nn::BatchNorm1d(16))),
        middle(register_module("middle", torch::nn::Linear(16, 16))),
        last(register_module("last", torch::nn::Linear(16, 4))) {}
  torch::Tensor forward(torch::Tensor values, bool uses_middle) {
    values = torch::relu(norm->forward(first->forward(values)));
    if (uses_middle) values = torch::relu(middle->forward(values));
    return last->forward(values);
  }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear middle;
  torch::nn::Linear last;
};
TORCH_MODULE(Net);

// Whole numbers divided by 101: the same in every language.
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

void write(std::ofstream& to, const std::string& mode, const std::string& name,
           const std::vector<torch::Tensor>& tensors) {
  to << mode << ' ' << name << std::setprecision(9);
  for (const auto& tensor : tensors) {
    const auto flat = tensor.detach().to(torch::kFloat).contiguous().flatten();
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
  add("uneven_own_buffers").broadcast_buffers = false;  // and rank 0 is the last
  return all;
}

void train(process_group& group, const way& how, std::ofstream& to) {
  const auto rank = static_cast<std::int64_t>(group.rank());
  torch::manual_seed(5 + group.rank());  // rank 0's first weights must win
  Net net;
  distributed_data_parallel parallel(group, *net, how.options);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const bool accumulates = how.name == "accumulate";
  const bool is_uneven = how.name.starts_with("uneven");
  std::vector<torch::Tensor> losses;
  std::vector<torch::Tensor> gradients;
  const auto pass = [&](std::int64_t step) {
    const bool uses_middle = how.name == "static"                 ? false
                             : how.options.find_unused_parameters ? (step + rank) % 2 == 0
                                                                  : true;
    auto loss = torch::nn::functional::cross_entropy(
        parallel.forward(net, values_of(rank, step), uses_middle), labels_of(rank, step));
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
    }
  };
  if (is_uneven) {
    const int most = static_cast<int>(group.world_size());
    const int own = static_cast<int>(rank);
    const int share = how.name == "uneven_own_buffers" ? most - own : own + 1;
    parallel.with_uneven_inputs([&] { run(5 * share); }, how.name == "uneven");
  } else {
    run(steps);
    for (const auto& parameter : net->parameters()) {
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    }
  }
  write(to, how.name, "losses", losses);
  write(to, how.name, "gradients", gradients);
  write(to, how.name, "parameters", net->parameters());
  write(to, how.name, "buffers", net->buffers());
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
