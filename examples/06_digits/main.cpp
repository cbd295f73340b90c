// The minimum of a distributed training program in C++: a process group, a model that is equal on
// all ranks, and a loop that splits the pictures among the ranks and averages numbers over them.
#include "examples/common/digits_test.hpp"
#include "examples/common/example_command_line.hpp"
#include "examples/common/program.hpp"
#include "worker/torch/training_loop.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

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

// Gradients are averaged, so after a backward pass this is the same on all ranks.
double gradient_norm(torch::nn::Module& model) {
  double squares = 0;
  for (const auto& parameter : model.parameters()) {
    squares += parameter.grad().square().sum().item<double>();
  }
  return std::sqrt(squares);
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
  worker::training_loop_options looping;
  looping.samples = data.train.labels.size();
  looping.batch_size = options.batch_size;
  looping.epochs = options.epochs;
  looping.seed = options.seed;
  looping.shows_progress = false;
  worker::training_loop loop(parallel, optimizer, looping);
  loop.on_epoch_end([&](const worker::epoch_end& done) {
    std::printf("rank %" PRIu32 " | epoch %" PRIu64 " | loss %.4f | gradient norm %.6f\n",
                here.rank, done.epoch, done.own.at(0).second.average(), gradient_norm(*network));
    const auto accuracy = examples::test(group, network, data.test);
    if (here.rank != 0) return;
    std::printf("all    | epoch %" PRIu64 " | loss %.4f | test accuracy %.4f\n", done.epoch,
                done.all.at(0).second.average(), accuracy.average());
  });
  loop.run([&](worker::training_batch& batch) {
    const auto picked = batch.tensor();
    const auto answers = parallel.forward(network, images.index_select(0, picked));
    return functional::nll_loss(answers, labels.index_select(0, picked));
  });
  group.close();
  return loop.status();
}

}  // namespace

int main(int count, char** values) {
  const auto options = parse(count, values);
  return examples::run_program("digits", [&] { return run(options); });
}
