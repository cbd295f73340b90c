// Use REQUIRE only: LibTorch defines CHECK as a macro that ends the program.
#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"
#include "tests/worker/torch/ranks.hpp"
#include "worker/store_client.hpp"
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/process_group.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/sgd.h>

#include <signal.h>
#include <sstream>
#include <unistd.h>

namespace ddprun::tests {
namespace {

constexpr std::chrono::seconds test_limit = patience;

using worker::distributed_data_parallel;
using worker::environment;
using worker::process_group;
using worker::process_group_options;

struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t width = 8)
      : first(register_module("first", torch::nn::Linear(4, width))),
        second(register_module("second", torch::nn::Linear(width, 3))) {
    register_buffer("scale", torch::ones({1}));  // a buffer that must be broadcast
  }
  torch::Tensor forward(torch::Tensor values) {
    return second->forward(torch::relu(first->forward(values)));
  }
  torch::nn::Linear first;
  torch::nn::Linear second;
};
TORCH_MODULE(Net);

torch::Tensor gradients(Net& net) {
  std::vector<torch::Tensor> all;
  for (const auto& parameter : net->parameters())
    all.push_back(parameter.grad().flatten());
  return torch::cat(all).clone();
}

torch::Tensor parameters(Net& net) {
  std::vector<torch::Tensor> all;
  for (const auto& parameter : net->parameters())
    all.push_back(parameter.detach().flatten());
  return torch::cat(all).clone();
}

std::string bits(const torch::Tensor& tensor) {
  const auto flat = tensor.contiguous();
  std::ostringstream text;
  const auto* at = static_cast<const unsigned char*>(flat.data_ptr());
  for (std::size_t byte = 0; byte < flat.nbytes(); ++byte)
    text << std::hex << int{at[byte]} << ' ';
  return text.str();
}

torch::Tensor images_of(std::uint32_t rank, int step) {
  torch::manual_seed(100 * rank + static_cast<std::uint64_t>(step));
  return torch::randn({6, 4});
}

const char* yes_no(bool value) {
  return value ? "yes" : "no";
}

// Runs five steps. Returns for each step the loss, and whether the gradient is the mean of the
// ranks' own; the last line has gradient and parameters, bit by bit.
std::string train(const environment& environment) {
  torch::set_num_threads(1);
  auto group = process_group::join(environment);
  torch::manual_seed(environment.rank + 1);  // different first weights: rank 0's must win
  Net net;
  distributed_data_parallel parallel(group, *net);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const auto labels = torch::tensor({0, 1, 2, 0, 1, 2}, torch::kLong);
  std::ostringstream said;
  for (int step = 0; step < 5; ++step) {
    // Compute the expected average with a plain copy of the model on the images of all ranks.
    Net plain;
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t at = 0; at < plain->parameters().size(); ++at) {
        plain->parameters()[at].copy_(net->parameters()[at]);
      }
    }
    for (std::uint32_t rank = 0; rank < environment.world_size; ++rank) {
      (torch::nn::functional::cross_entropy(plain->forward(images_of(rank, step)), labels) /
       static_cast<double>(environment.world_size))
          .backward();
    }
    parallel.zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(
        parallel.forward(net, images_of(environment.rank, step)), labels);
    parallel.backward(loss);
    said << "loss " << loss.item<float>() << ", mean "
         << yes_no(torch::allclose(gradients(net), gradients(plain), 1e-4, 1e-6)) << "\n";
    optimizer.step();
  }
  said << bits(gradients(net)) << bits(parameters(net));
  group.barrier();
  return said.str();
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream from(text);
  for (std::string line; std::getline(from, line);)
    result.push_back(line);
  return result;
}

}  // namespace

TEST_CASE("two ranks: losses differ, gradients and weights are equal", "[torch]") {
  const auto said = run_ranks(2, train);
  INFO(said[0] << "\n" << said[1]);
  const auto first = lines(said[0]);
  const auto second = lines(said[1]);
  REQUIRE(first.size() == 6);
  REQUIRE(second.size() == 6);
  for (int step = 0; step < 5; ++step) {
    REQUIRE(first[step] != second[step]);
    REQUIRE(first[step].ends_with("mean yes"));
    REQUIRE(second[step].ends_with("mean yes"));
  }
  REQUIRE(first[5] == second[5]);
}

TEST_CASE("average_times says where the time of a step goes", "[torch]") {
  const auto said = run_ranks(2, [](const environment& environment) -> std::string {
    auto group = process_group::join(environment);
    Net net;
    distributed_data_parallel parallel(group, *net);
    const auto step = [&] {
      parallel.zero_grad();
      parallel.backward(parallel.forward(net, images_of(environment.rank, 0)).sum());
    };
    step();
    const auto before = parallel.average_times();
    for (int more = 0; more < 5; ++more)
      step();
    const auto after = parallel.average_times();
    group.close();
    const bool none = before.forward == 0 && before.all_reduce == 0;
    const bool all = after.forward > 0 && after.backward > 0 && after.all_reduce > 0;
    // Both start with the first bucket, and end at different times.
    const bool fits = after.hidden >= 0 && after.hidden <= after.backward;
    return std::string(yes_no(none)) + " " + yes_no(all) + " " + yes_no(fits);
  });
  CHECK(said[0] == "yes yes yes");
  CHECK(said[1] == "yes yes yes");
}

TEST_CASE("a rank that does not come to a collective is named", "[torch]") {
  const auto said_within = [](std::chrono::milliseconds limit) {
    return run_ranks(3, [&](const environment& environment) -> std::string {
      process_group_options options;
      options.collective_timeout = limit;
      auto group = process_group::join(environment, options);
      // Ranks that have made different calls before are told apart as well.
      Net net;
      distributed_data_parallel parallel(group, *net);
      parallel.with_uneven_inputs([&] {
        for (std::uint32_t pass = 0; pass < environment.rank; ++pass)
          parallel.backward(parallel.forward(net, images_of(environment.rank, 0)).sum());
      });
      std::string problem;
      auto store = worker::store_client::from_environment(environment, test_limit, problem);
      if (environment.rank == 1) {
        // Until the others have given it up.
        store->wait(std::vector<std::string>{"given up/0", "given up/2"}, test_limit);
        return "elsewhere";
      }
      std::string text = "not noticed";
      try {
        auto sum = torch::ones({10});
        group.all_reduce_sum(sum);
      } catch (const worker::process_group_error& error) {
        text = error.what();
      }
      store->set("given up/" + std::to_string(environment.rank), "", test_limit);
      // The one that serves the store stays for the others.
      store->wait(std::vector<std::string>{"given up/0", "given up/2"}, test_limit);
      return text;
    });
  };
  const auto is_named = [](const std::string& text) {
    return text.find("; rank 1 has not come") != std::string::npos;
  };
  // Where the machine has no time for all of them, others are late as well: once more, with more.
  std::chrono::milliseconds limit = std::chrono::seconds(1);
  auto said = said_within(limit);
  while (!(is_named(said[0]) && is_named(said[2])) && (limit *= 6) < test_limit)
    said = said_within(limit);
  INFO(said[0]);
  INFO(said[2]);
  REQUIRE(said[1] == "elsewhere");
  for (const auto rank : {0, 2}) {
    REQUIRE(said[static_cast<std::size_t>(rank)].find(": all_reduce: ") != std::string::npos);
    REQUIRE(is_named(said[static_cast<std::size_t>(rank)]));
  }
}

TEST_CASE("a rank that dies in a backward pass is an error of the others", "[torch]") {
  const auto said = run_ranks(2, [](const environment& environment) -> std::string {
    auto group = process_group::join(environment);
    Net net;
    distributed_data_parallel parallel(group, *net);
    const auto output = parallel.forward(net, images_of(environment.rank, 0));
    group.barrier();
    if (environment.rank == 1) ::_exit(7);
    parallel.backward(output.sum());
    return "not noticed";
  });
  INFO("rank 0: " << said[0]);
  REQUIRE(said[1] == "exited with 7");
  REQUIRE(said[0].starts_with("error: rank 0 of 2, store at 127.0.0.1:"));
  REQUIRE(said[0].find(": averaging the gradients: ") != std::string::npos);
  REQUIRE(said[0].ends_with("(a peer is gone or late)"));
  REQUIRE(said[0].find("typically") == std::string::npos);
}

TEST_CASE("a rank evaluates without the others", "[torch]") {
  const auto said = run_ranks(2, [](const environment& environment) -> std::string {
    process_group_options options;
    options.collective_timeout = test_limit;
    auto group = process_group::join(environment, options);
    Net net;
    distributed_data_parallel parallel(group, *net);
    if (environment.rank == 1) {
      const torch::NoGradGuard no_grad;
      parallel.forward(net, images_of(environment.rank, 0));
    }
    parallel.backward(parallel.forward(net, images_of(environment.rank, 1)).sum());
    return bits(gradients(net));
  });
  REQUIRE(said[0] == said[1]);
}

TEST_CASE("models that differ between ranks are found before the first step", "[torch]") {
  const auto said = run_ranks(2, [](const environment& environment) -> std::string {
    auto group = process_group::join(environment);
    Net net(environment.rank == 0 ? 8 : 9);
    distributed_data_parallel parallel(group, *net);
    return "accepted";
  });
  INFO(said[0] << "\n" << said[1]);
  // Rank 0's model is the reference, so rank 0 only sees the other rank leave.
  REQUIRE(said[0].starts_with("error: rank 0 of 2, store at 127.0.0.1:"));
  REQUIRE(said[1].find(": comparing models: ") != std::string::npos);
}

}  // namespace ddprun::tests
