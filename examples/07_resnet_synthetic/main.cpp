// Trains a ResNet on synthetic images, as PyTorch's ImageNet example does on real ones: meters for
// time, data, loss and accuracy, a test after each epoch, and --resume.
#include "examples/07_resnet_synthetic/arguments.hpp"
#include "examples/07_resnet_synthetic/resnet.hpp"
#include "examples/07_resnet_synthetic/synthetic_images.hpp"
#include "examples/common/device.hpp"
#include "examples/common/program.hpp"
#include "worker/distributed_sampler.hpp"
#include "worker/snapshot/snapshots.hpp"
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/metrics.hpp"
#include "worker/torch/training_state.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <stdexcept>
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
  worker::snapshots* snapshots;  // none: nothing is saved
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Running averages, of one epoch.
struct meters {
  worker::meter time, data, loss, top1, top5;  // seconds, seconds, and per cent

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

// Called by all ranks; rank 0 tells the averages of all, and behind each its own last value.
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

// One epoch; the number of steps that it took.
std::uint64_t train(job& job, const synthetic_images& images,
                    worker::distributed_data_parallel& parallel,
                    worker::distributed_sampler& sampler, std::uint64_t epoch,
                    std::uint64_t steps_before) {
  job.network->train();
  set_learning_rate(job, epoch);
  sampler.set_epoch(epoch);
  const auto indices = sampler.indices();
  const auto batches = worker::batches(indices, job.options.batch_size);
  meters found;
  std::size_t step = 0;
  auto start = std::chrono::steady_clock::now();
  for (const auto picked : batches) {
    const auto batch = images.load(picked);
    const auto inputs = batch.images.to(job.device);
    const auto labels = batch.labels.to(job.device);
    found.data.add(seconds_since(start));
    parallel.zero_grad();
    const auto answers = parallel.forward(job.network, inputs);
    const auto loss = functional::cross_entropy(answers, labels);
    parallel.backward(loss);
    job.optimizer.step();
    found.add(answers.detach(), labels, loss.item<double>());
    found.time.add(seconds_since(start));
    ++step;
    if (step % job.options.print_interval == 0 || step == batches.size()) {
      tell(job, epoch, step, batches.size(), found);
    }
    if (job.snapshots != nullptr && job.snapshots->progress(steps_before + step) &&
        job.snapshots->is_over()) {
      throw std::runtime_error(job.snapshots->problem());
    }
    start = std::chrono::steady_clock::now();
  }
  return batches.size();
}

std::string tell_all_reduce(job& job, const worker::distributed_data_parallel& parallel) {
  const auto times = parallel.average_times();
  if (job.here.world_size == 1 || times.all_reduce <= 0) return "";
  char text[96];
  std::snprintf(text, sizeof text, "; all_reduce %.3f s a step, %.0f %% of it hidden",
                times.all_reduce, 100 * times.hidden / times.all_reduce);
  return text;
}

// Every rank looks at its share of the images; none is looked at twice.
void test(job& job, const synthetic_images& images) {
  const torch::NoGradGuard no_grad;
  job.network->eval();
  std::vector<std::size_t> mine;
  for (std::size_t index = job.here.rank; index < images.count(); index += job.here.world_size)
    mine.push_back(index);
  meters found;
  for (const auto picked : worker::batches(mine, job.options.batch_size)) {
    const auto batch = images.load(picked);
    const auto labels = batch.labels.to(job.device);
    const auto answers = job.network->forward(batch.images.to(job.device));
    found.add(answers, labels, functional::cross_entropy(answers, labels).item<double>());
  }
  found.average(job.group);
  if (job.here.rank != 0) return;
  std::printf(" *   Loss %.4f  Acc@1 %.2f  Acc@5 %.2f\n", found.loss.average(),
              found.top1.average(), found.top5.average());
}

// The epoch to begin with, and the steps behind it.
std::pair<std::uint64_t, std::uint64_t> resume(job& job) {
  if (job.snapshots == nullptr) return {1, 0};
  const auto& from = job.snapshots->resumed();
  if (!from) return {1, 0};
  worker::training_state(*job.network, job.optimizer).load(*from);
  const auto info = from->info;
  if (job.here.rank == 0) {
    std::printf("resuming from %s at epoch %" PRIu64 "\n", from->path.c_str(), info.epoch);
  }
  job.snapshots->drop_resumed();
  return {info.epoch, info.step};
}

// Training goes on without a snapshot that could not be saved (rank 0 has said why), unless no
// later one can be.
void save(job& job, std::uint64_t step, std::uint64_t next_epoch) {
  if (job.snapshots == nullptr) return;
  const auto state = worker::training_state(*job.network, job.optimizer).view();
  if (job.snapshots->save(step, next_epoch, state) && job.snapshots->is_over()) {
    throw std::runtime_error(job.snapshots->problem());
  }
}

void run_epochs(job& job) {
  const arguments& options = job.options;
  const auto size = static_cast<std::int64_t>(options.image_size);
  const auto classes = static_cast<std::int64_t>(options.classes);
  const synthetic_images images(options.images, size, classes, first_image);
  const synthetic_images test_images(options.test_images, size, classes, first_test_image);
  worker::distributed_sampler_options dealing;
  dealing.length = options.images;
  dealing.world_size = job.here.world_size;
  dealing.rank = job.here.rank;
  dealing.seed = options.seed;
  worker::distributed_sampler sampler(dealing);
  auto [epoch, step] = resume(job);
  worker::distributed_data_parallel parallel(job.group, *job.network);
  for (; epoch <= options.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    step += train(job, images, parallel, sampler, epoch, step);
    const double seconds = seconds_since(start);
    test(job, test_images);
    if (job.here.rank == 0) {
      const auto seen = static_cast<double>(sampler.size() * job.here.world_size);
      std::printf("Epoch: [%" PRIu64 "] took %.2f s, %.1f images/s%s\n", epoch, seconds,
                  seen / seconds, tell_all_reduce(job, parallel).c_str());
    }
    save(job, step, epoch + 1);
  }
}

int run(const arguments& options) {
  const auto here = worker::read_environment(options.place);
  torch::manual_seed(options.seed);
  auto [device, group] = examples::join(here);
  std::unique_ptr<worker::snapshots> snapshots;
  if (!options.resume.empty()) {
    worker::snapshots_options keeping;
    keeping.folder = options.resume;
    std::string problem;
    auto opened = worker::snapshots::open(here, keeping, problem);
    if (!opened) throw std::runtime_error(problem);
    snapshots = std::move(*opened);
  }
  ResNet network(options.built, static_cast<std::int64_t>(options.classes));
  network->to(device);
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(options.learning_rate)
                                                         .momentum(options.momentum)
                                                         .weight_decay(options.weight_decay));
  job job{options, here, device, group, network, optimizer, snapshots.get()};
  run_epochs(job);
  // Without the last one the job has not done what it was started for.
  if (snapshots && snapshots->close()) throw std::runtime_error(snapshots->problem());
  group.close();
  return 0;
}

}  // namespace
}  // namespace resnet_synthetic

int main(int count, char** values) {
  const auto options = resnet_synthetic::parse_arguments(count, values);
  return examples::run_program("resnet_synthetic", [&] { return resnet_synthetic::run(options); });
}
