// A training job on GPUs whose last rank may die: FOLDER gloo|nccl-alone STEP. In the first round
// the rank dies in the loss of that step (0: it does not), while the others are already waiting for
// it on their GPUs. Each rank prints the step that it began with, and what it came to.
#include "worker/run.hpp"
#include "worker/snapshot/checksum.hpp"
#include "worker/torch/training_loop.hpp"
#include "worker/torch/training_state.hpp"
#include "worker/torch_cuda/nccl_backend.hpp"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/types.h>

#include <cstdint>
#include <cstdio>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace {

namespace worker = ddprun::worker;

std::string checksum_of(const torch::nn::Module& model) {
  worker::checksum sum;
  auto all = model.parameters();
  for (const auto& each : model.buffers())
    all.push_back(each);
  for (const auto& each : all) {
    const auto values = each.detach().cpu().contiguous();
    sum.add({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
  }
  return worker::checksum_text(sum.value());
}

int train(const std::string& folder, bool has_gloo, std::uint64_t last_step) {
  const auto here = worker::read_environment();
  const c10::Device device = worker::gpu_of(here);
  worker::process_group_options options;
  options.backends.push_back(worker::nccl_backend(device));
  options.gloo = has_gloo;
  options.watchdog = false;
  auto group = worker::process_group::join(here, options);

  torch::manual_seed(3);
  const std::uint64_t samples = 64 * here.world_size;
  const auto inputs = torch::randn({static_cast<std::int64_t>(samples), 32}).to(device);
  const auto targets = inputs.sum(1, true);
  torch::nn::Sequential model(torch::nn::Linear(32, 64), torch::nn::BatchNorm1d(64),
                              torch::nn::Linear(64, 1));
  model->to(device);
  worker::distributed_data_parallel parallel(group, *model);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.02));

  worker::training_loop_options looping;
  looping.samples = samples;
  looping.batch_size = 8;
  looping.epochs = 2;
  looping.save.epochs = 0;
  looping.folder = folder;
  looping.shows_progress = false;
  worker::training_loop loop(parallel, optimizer, looping);
  std::uint64_t first_step = 0;
  loop.on_step([&](const worker::step_end& done) {
    if (first_step == 0) first_step = done.step;
  });
  loop.run([&](worker::training_batch& batch) {
    const bool is_last = here.rank + 1 == here.world_size;
    if (here.round == 1 && is_last && batch.step() == last_step) ::kill(::getpid(), SIGKILL);
    const auto picked = batch.tensor().to(device);
    return torch::mse_loss(parallel.forward(model, inputs.index_select(0, picked)),
                           targets.index_select(0, picked));
  });
  std::printf("rank %u, from step %llu: %s\n", here.rank,
              static_cast<unsigned long long>(first_step), checksum_of(*model).c_str());
  group.close();
  return loop.status();
}

}  // namespace

int main(int count, char** values) {
  return worker::run([&] {
    if (count != 4) throw std::runtime_error("give FOLDER gloo|nccl-alone STEP");
    return train(values[1], std::string(values[2]) == "gloo", std::stoull(values[3]));
  });
}
