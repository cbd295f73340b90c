// Trains a ResNet on synthetic images, as PyTorch's ImageNet example does on real ones: with meters
// for time, data, loss and accuracy, threads that load images, a test after each epoch, and
// --resume.
#include "examples/07_resnet_synthetic/arguments.hpp"
#include "examples/07_resnet_synthetic/resnet.hpp"
#include "examples/07_resnet_synthetic/synthetic_images.hpp"
#include "examples/common/device.hpp"
#include "examples/common/program.hpp"
#include "worker/torch/metrics.hpp"
#include "worker/torch/pinned_memory.hpp"
#include "worker/torch/training_loop.hpp"
#include "worker/training/data_loader.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace resnet_synthetic {
namespace {

namespace worker = ddprun::worker;
namespace functional = torch::nn::functional;

constexpr std::uint64_t first_image = 1'000'000;
constexpr std::uint64_t first_test_image = 2'000'000'000;

struct job {
  const arguments& options;
  const worker::environment& here;
  torch::Device device;
  worker::process_group& group;
  ResNet& network;
  torch::optim::SGD& optimizer;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The running averages of one epoch.
struct meters {
  worker::meter time, data, loss, top1, top5;  // seconds, seconds, then percent

  void add(const torch::Tensor& answers, const torch::Tensor& labels, double loss_now) {
    const auto samples = static_cast<double>(labels.size(0));
    const auto found = std::get<1>(answers.topk(5, 1)).eq(labels.unsqueeze(1));
    loss.add(loss_now, samples);
    top1.add(100 * found.slice(1, 0, 1).sum().item<double>() / samples, samples);
    top5.add(100 * found.sum().item<double>() / samples, samples);
  }
  void average(worker::process_group& group) {
    worker::average_over_ranks(group, {&time, &data, &loss, &top1, &top5});
  }
};

// All ranks must call it. Rank 0 prints the averages over all ranks, and in parentheses its own
// last values.
void tell(job& job, std::uint64_t epoch, std::size_t step, std::size_t steps, meters told) {
  const meters mine = told;
  told.average(job.group);
  if (job.here.rank != 0) return;
  std::printf("Epoch: [%" PRIu64
              "][%zu/%zu]  Time %.3f (%.3f)  Data %.3f (%.3f)  "
              "Loss %.4f (%.4f)  Acc@1 %.2f (%.2f)  Acc@5 %.2f (%.2f)\n",
              epoch, step, steps, told.time.average(), mine.time.last(), told.data.average(),
              mine.data.last(), told.loss.average(), mine.loss.last(), told.top1.average(),
              mine.top1.last(), told.top5.average(), mine.top5.last());
}

void set_learning_rate(job& job, std::uint64_t epoch) {
  const std::uint64_t third = std::max<std::uint64_t>(1, job.options.epochs / 3);
  const double rate =
      job.options.learning_rate * std::pow(0.1, static_cast<double>((epoch - 1) / third));
  for (auto& parameters : job.optimizer.param_groups())
    parameters.options().set_lr(rate);
}

std::string tell_all_reduce(job& job, const worker::distributed_data_parallel& parallel) {
  const auto times = parallel.average_times();
  if (job.here.world_size == 1 || times.all_reduce <= 0) return "";
  char text[96];
  std::snprintf(text, sizeof text, "; all_reduce %.3f s a step, %.0f %% of it hidden",
                times.all_reduce, 100 * times.hidden / times.all_reduce);
  return text;
}

using image_loader = worker::data_loader<synthetic_images::batch>;

image_loader make_loader(const job& job, const synthetic_images& images) {
  return image_loader(
      [&images, device = job.device](std::uint64_t, worker::sample_span picked) {
        const auto loaded = images.load(picked);
        return synthetic_images::batch{worker::pinned_for(device, loaded.images),
                                       worker::pinned_for(device, loaded.labels)};
      },
      {.workers = job.options.workers});
}

// Each rank tests its share of the images, so that none is counted twice.
void test(job& job, const synthetic_images& images, image_loader& loader) {
  const torch::NoGradGuard no_grad;
  job.network->eval();
  std::vector<std::size_t> mine;
  for (std::size_t index = job.here.rank; index < images.count(); index += job.here.world_size)
    mine.push_back(index);
  meters found;
  const auto passes = worker::batches(mine, job.options.batch_size);
  loader.begin(1, passes);
  for (const auto& picked : passes) {
    const auto batch = loader.take(1, picked);
    const auto labels = batch.labels.to(job.device, /*non_blocking=*/true);
    const auto answers = job.network->forward(batch.images.to(job.device, true));
    found.add(answers, labels, functional::cross_entropy(answers, labels).item<double>());
  }
  found.average(job.group);
  if (job.here.rank != 0) return;
  std::printf(" *   Loss %.4f  Acc@1 %.2f  Acc@5 %.2f\n", found.loss.average(),
              found.top1.average(), found.top5.average());
}

worker::training_loop_options loop_options(const arguments& options) {
  worker::training_loop_options made;
  made.samples = options.images;
  made.batch_size = options.batch_size;
  made.epochs = options.epochs;
  made.seed = options.seed;
  made.folder = options.resume;
  made.shows_progress = false;
  return made;
}

int run_epochs(job& job) {
  const arguments& options = job.options;
  const auto size = static_cast<std::int64_t>(options.image_size);
  const auto classes = static_cast<std::int64_t>(options.classes);
  const synthetic_images images(options.images, size, classes, first_image);
  const synthetic_images test_images(options.test_images, size, classes, first_test_image);
  worker::distributed_data_parallel parallel(job.group, *job.network);
  auto loader = make_loader(job, images);
  auto test_loader = make_loader(job, test_images);
  worker::training_loop loop(parallel, job.optimizer, loop_options(options));
  loop.load_ahead(loader);
  meters found;
  std::chrono::steady_clock::time_point start;  // of the current step
  torch::Tensor answers, labels, loss;          // of the current step
  loop.on_epoch_begin([&](std::uint64_t epoch, std::uint64_t) {
    set_learning_rate(job, epoch);
    found = {};
    start = std::chrono::steady_clock::now();
  });
  loop.on_step([&](const worker::step_end& done) {
    found.add(answers.detach(), labels, loss.item<double>());
    found.time.add(seconds_since(start));
    if (done.step_of_epoch % options.print_interval == 0 ||
        done.step_of_epoch == done.steps_of_epoch) {
      tell(job, done.epoch, done.step_of_epoch, done.steps_of_epoch, found);
    }
    start = std::chrono::steady_clock::now();
  });
  loop.on_epoch_end([&](const worker::epoch_end& done) {
    test(job, test_images, test_loader);
    if (job.here.rank != 0) return;
    const auto seen = static_cast<double>(done.samples * job.here.world_size);
    std::printf("Epoch: [%" PRIu64 "] took %.2f s, %.1f images/s%s\n", done.epoch, done.seconds,
                seen / done.seconds, tell_all_reduce(job, parallel).c_str());
  });
  loop.run([&](worker::training_batch& batch) {
    const auto loaded = loader.take(batch);
    const auto inputs = loaded.images.to(job.device, /*non_blocking=*/true);
    labels = loaded.labels.to(job.device, true);
    found.data.add(seconds_since(start));
    answers = parallel.forward(job.network, inputs);
    loss = functional::cross_entropy(answers, labels);
    return loss;
  });
  return loop.status();
}

int run(const arguments& options) {
  const auto here = worker::read_environment(options.place);
  torch::manual_seed(options.seed);
  auto [device, group] = examples::join(here);
  ResNet network(options.built, static_cast<std::int64_t>(options.classes));
  network->to(device);
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(options.learning_rate)
                                                         .momentum(options.momentum)
                                                         .weight_decay(options.weight_decay));
  job job{options, here, device, group, network, optimizer};
  const int status = run_epochs(job);
  group.close();
  return status;
}

}  // namespace
}  // namespace resnet_synthetic

int main(int count, char** values) {
  const auto options = resnet_synthetic::parse_arguments(count, values);
  return examples::run_program("resnet_synthetic", [&] { return resnet_synthetic::run(options); });
}
