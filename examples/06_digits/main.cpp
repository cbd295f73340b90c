// The least that a distributed training program in C++ needs: the ranks joined, a model that is
// equal on all of them, a sampler that deals the pictures out, and numbers averaged over the ranks.
#include "examples/common/command_line.hpp"
#include "examples/common/digits.hpp"
#include "examples/common/digits_network.hpp"
#include "examples/common/program.hpp"
#include "worker/distributed_sampler.hpp"
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/metrics.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

namespace worker = ddprun::worker;
namespace functional = torch::nn::functional;

struct arguments {
  std::uint64_t epochs = 5;
  std::uint64_t batch_size = 64;
  double learning_rate = 1e-3;
  std::uint64_t seed = 0;
  std::string data = ".cache/digits.csv";
  worker::place_by_hand place;
};

arguments parse(int count, char** values) {
  arguments made;
  if (const char* data = std::getenv("DDPRUN_DIGITS"); data != nullptr && *data != '\0') {
    made.data = data;
  }
  examples::command_line line(
      "digits", "Trains a small convolutional network on 8x8 handwritten digits, on all ranks.");
  line.number("--epochs", made.epochs, "how often each picture is seen", 1);
  line.number("--batch-size", made.batch_size, "pictures of each rank in a step", 1);
  line.fraction("--learning-rate", made.learning_rate, "Adam's");
  line.number("--seed", made.seed, "decides the first weights and every shuffle");
  line.text("--data", made.data, "the digits; $DDPRUN_DIGITS says it too");
  line.place(made.place);
  line.parse(count, values);
  return made;
}

// After a backward pass the same on all ranks.
double gradient_norm(torch::nn::Module& model) {
  double squares = 0;
  for (const auto& parameter : model.parameters()) {
    squares += parameter.grad().square().sum().item<double>();
  }
  return std::sqrt(squares);
}

worker::meter test(const worker::environment& here, worker::process_group& group,
                   examples::Network& network, examples::digits& pictures) {
  const torch::NoGradGuard no_grad;
  const auto count = static_cast<std::int64_t>(pictures.labels.size());
  const auto mine = torch::arange(here.rank, count, here.world_size);
  worker::meter accuracy;
  if (mine.numel() > 0) {
    const auto answers = network->forward(images_of(pictures).index_select(0, mine)).argmax(1);
    const auto right = answers.eq(labels_of(pictures).index_select(0, mine)).to(torch::kDouble);
    accuracy.add(right.mean().item<double>(), static_cast<double>(mine.numel()));
  }
  worker::average_over_ranks(group, {&accuracy});
  return accuracy;
}

int run(const arguments& options) {
  const auto here = worker::read_environment(options.place);
  auto data = examples::read_digits(options.data);
  const auto images = images_of(data.train);
  const auto labels = labels_of(data.train);
  torch::set_num_threads(1);
  torch::manual_seed(options.seed);
  auto group = worker::process_group::join(here);
  examples::Network network;
  worker::distributed_data_parallel parallel(group, *network);
  torch::optim::Adam optimizer(network->parameters(),
                               torch::optim::AdamOptions(options.learning_rate));
  worker::distributed_sampler_options dealing;
  dealing.length = data.train.labels.size();
  dealing.world_size = here.world_size;
  dealing.rank = here.rank;
  dealing.seed = options.seed;
  worker::distributed_sampler sampler(dealing);

  for (std::uint64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    sampler.set_epoch(epoch);
    const auto indices = sampler.indices();
    worker::meter loss_here;
    for (const auto batch : worker::batches(indices, options.batch_size)) {
      const auto picked =
          torch::tensor(std::vector<std::int64_t>(batch.begin(), batch.end()), torch::kLong);
      parallel.zero_grad();
      const auto answers = parallel.forward(network, images.index_select(0, picked));
      const auto loss = functional::nll_loss(answers, labels.index_select(0, picked));
      parallel.backward(loss);
      optimizer.step();
      loss_here.add(loss.item<double>(), static_cast<double>(batch.size()));
    }
    std::printf("rank %" PRIu32 " | epoch %" PRIu64 " | loss %.4f | gradient norm %.6f\n",
                here.rank, epoch, loss_here.average(), gradient_norm(*network));
    auto loss = loss_here;
    worker::average_over_ranks(group, {&loss});
    const auto accuracy = test(here, group, network, data.test);
    if (here.rank == 0) {
      std::printf("all    | epoch %" PRIu64 " | loss %.4f | test accuracy %.4f\n", epoch,
                  loss.average(), accuracy.average());
    }
    group.barrier();
  }
  group.close();
  return 0;
}

}  // namespace

int main(int count, char** values) {
  const auto options = parse(count, values);
  return examples::run_program("digits", [&] { return run(options); });
}
