// Trains on all ranks, saves a snapshot every few epochs, and resumes from the newest one when it
// is started again, by ddprun or by hand. On SIGTERM it saves one more in the middle of the epoch.
// If another rank dies, the others save their last finished step, and with --survivors on their
// processes live on. An interrupted run ends with the same weights as an uninterrupted one, bit by
// bit.
#include "examples/01_snapshot_resume/arguments.hpp"
#include "examples/common/digits_test.hpp"
#include "examples/common/program.hpp"
#include "worker/survive.hpp"
#include "worker/torch/training_loop.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>

#include <cinttypes>
#include <cstdio>

namespace {

namespace worker = ddprun::worker;

void tell_samples(std::uint32_t rank, const worker::step_end& done) {
  std::string text;
  for (const std::size_t sample : done.passes[0])
    text += " " + std::to_string(sample);
  std::printf("[rank %" PRIu32 "] epoch %" PRIu64 " step %" PRIu64 " | samples%s\n", rank,
              done.epoch, done.step, text.c_str());
}

int run(const snapshot_resume::arguments& options, worker::training_loop_options looping) {
  const worker::stop_request stop;  // created first, to catch an early signal
  looping.stop = &stop;
  const auto here = worker::read_environment(options.place);
  auto data = examples::read_digits(options.data);
  const auto images = images_of(data.train), labels = labels_of(data.train);
  looping.samples = data.train.labels.size();
  torch::set_num_threads(1);
  torch::manual_seed(looping.seed);
  auto group = worker::process_group::join(here);
  examples::Network network;
  worker::distributed_data_parallel parallel(group, *network);
  torch::optim::Adam optimizer(network->parameters(), torch::optim::AdamOptions(1e-3));

  worker::training_loop loop(parallel, optimizer, looping);
  loop.on_step([&](const worker::step_end& done) {
    if (options.tells_samples) tell_samples(here.rank, done);
  });
  loop.on_epoch_end([&](const worker::epoch_end& done) {
    if (done.samples == 0) return;  // the snapshot was at the end of this epoch
    std::printf("[rank %" PRIu32 "] epoch %" PRIu64 " | loss %.4f | %zu samples\n", here.rank,
                done.epoch, done.own.at(0).second.average(), done.samples);
  });
  loop.run([&](worker::training_batch& batch) {
    const auto picked = batch.tensor();
    const auto answers = parallel.forward(network, images.index_select(0, picked));
    const auto right = labels.index_select(0, picked);
    batch.report("accuracy", answers.argmax(1).eq(right).to(torch::kDouble).mean());
    return torch::nn::functional::nll_loss(answers, right);
  });
  if (loop.is_done()) {
    const auto found = examples::test(group, network, data.test);
    if (here.rank == 0) {
      std::printf("model checksum %s\n", examples::checksum(*network).c_str());
      std::printf("accuracy %.4f (%.0f of %.0f test pictures)\n", found.average(), found.sum(),
                  found.weight());
    }
  }
  group.close();
  return loop.status();
}

}  // namespace

int main(int count, char** values) {
  const auto options = snapshot_resume::parse_arguments(count, values);
  return examples::run_program("snapshot_resume", [&] {
    return worker::survive([&] { return run(options, options.loop); });
  });
}
