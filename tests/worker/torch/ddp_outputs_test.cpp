// Tests the types that a model may return.
//
// Use REQUIRE only: LibTorch defines CHECK as a macro that ends the program.
#include "tests/support/catch.hpp"
#include "tests/worker/torch/ranks.hpp"
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/process_group.hpp"

#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <map>
#include <optional>

namespace ddprun::tests {
namespace {

using worker::distributed_data_parallel;
using worker::environment;
using worker::process_group;

struct Answer {
  torch::Tensor scores;
  int best = 0;
};
std::vector<at::Tensor> output_tensors(const Answer& answer) {
  return {answer.scores};
}

// Each head is used only if its part of the answer is requested; otherwise it gets no gradient.
struct HeadsImpl : torch::nn::Module {
  HeadsImpl()
      : trunk(register_module("trunk", torch::nn::Linear(4, 4))),
        left(register_module("left", torch::nn::Linear(4, 2))),
        right(register_module("right", torch::nn::Linear(4, 3))) {}
  std::tuple<torch::Tensor, std::optional<torch::Tensor>> forward(torch::Tensor values, bool both) {
    values = trunk->forward(values);
    if (!both) return {left->forward(values), std::nullopt};
    return {left->forward(values), right->forward(values)};
  }
  torch::nn::Linear trunk, left, right;
};
TORCH_MODULE(Heads);

}  // namespace

TEST_CASE("the tensors in what a model returns", "[torch]") {
  const auto said = run_ranks(1, [](const environment&) -> std::string {
    const auto one = torch::ones({1});
    const auto count = [](const auto& output) {
      std::vector<at::Tensor> found;
      worker::collect_tensors(output, found);
      return std::to_string(found.size());
    };
    return count(one) + count(torch::Tensor()) + count(std::pair(one, 3)) +
           count(std::vector{one, one, one}) +
           count(std::map<std::string, at::Tensor>{{"a", one}}) + count(std::array{one, one}) +
           count(std::optional<at::Tensor>()) +
           count(std::optional(std::tuple(one, std::string("text"), one))) + count(Answer{one, 1});
  });
  REQUIRE(said[0] == "101312021");
}

TEST_CASE("gradients of a model that returns several tensors are averaged", "[torch]") {
  // Unused parameters are found from all outputs, and a static graph waits for all of them.
  const bool is_static = GENERATE(false, true);
  const auto said = run_ranks(2, [&](const environment& here) -> std::string {
    auto group = process_group::join(here);
    Heads net;
    worker::distributed_data_parallel_options options;
    options.find_unused_parameters = !is_static;
    options.static_graph = is_static;
    distributed_data_parallel parallel(group, *net, options);
    std::string text;
    for (int step = 0; step < 3; ++step) {
      const bool both = is_static || step != 1;
      parallel.zero_grad();
      const auto values = torch::ones({5, 4}) * (1.0 + here.rank);
      const auto [left, right] = parallel.forward(net, values, both);
      parallel.backward(right ? left.sum() + right->sum() : left.sum());
      // Each rank's own gradient is 5 times its input, whose average over both ranks is 1.5.
      const auto expected = net->trunk->forward(torch::ones({1, 4}) * 1.5);
      auto gradient = net->left->weight.grad()[0];
      auto total = gradient.clone();
      group.all_reduce_sum(total);
      const bool has_right = net->right->weight.grad().defined();
      text += torch::equal(total, gradient * 2) ? "equal" : "apart";
      text += has_right == both ? " " : ", the right head is wrong ";
    }
    return text;
  });
  REQUIRE(said == std::vector<std::string>(2, "equal equal equal "));
}

}  // namespace ddprun::tests
