// Trains on all ranks, saves a snapshot every few epochs, and goes on from the newest one when it
// is started again: after a crash, by ddprun, or tomorrow, by hand. On SIGTERM, which ddprun sends
// before it ends a worker, it saves one more in the middle of the epoch.
//
// A disturbed run ends with the same weights, bit by bit, as an undisturbed one: the order of the
// samples depends on seed and epoch alone, each rank computes on one thread, and gradients are
// summed in the same order from the first step of a process on (`warm_up`).
#include "examples/01_snapshot_resume/arguments.hpp"
#include "examples/common/digits.hpp"
#include "examples/common/digits_network.hpp"
#include "examples/common/program.hpp"
#include "worker/distributed_sampler.hpp"
#include "worker/environment.hpp"
#include "worker/metrics/metrics_file.hpp"
#include "worker/metrics/progress.hpp"
#include "worker/snapshot/snapshots.hpp"
#include "worker/stop_request.hpp"
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/metrics.hpp"
#include "worker/torch/process_group.hpp"
#include "worker/torch/training_state.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>

#include <cinttypes>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace snapshot_resume {
namespace {

using examples::digits;
using examples::images_of;
using examples::labels_of;
using examples::Network;

namespace worker = ddprun::worker;
namespace functional = torch::nn::functional;

struct job {
  const arguments& options;
  const worker::environment& environment;
  worker::process_group& group;
  Network& network;
  torch::optim::Adam& optimizer;
  worker::snapshots& snapshots;
  const worker::stop_request& stop;
  std::uint64_t epochs_saved = 0;               // with the snapshot under way, or the last one
  std::optional<std::string> told;              // the last one that was
  std::optional<worker::metrics_file> metrics;  // rank 0's, where they are asked for
};

// Where training is: epochs count from 1, and steps over all of them.
struct place {
  std::uint64_t epoch = 1;
  std::uint64_t step = 0;
  worker::distributed_sampler_state samples;  // used in this epoch
};

worker::distributed_sampler sampler_of(const job& job, std::size_t length) {
  worker::distributed_sampler_options options;
  options.length = length;
  options.world_size = job.environment.world_size;
  options.rank = job.environment.rank;
  options.seed = job.options.seed;
  return worker::distributed_sampler(options);
}

place resume(job& job) {
  const bool tells = job.environment.rank == 0;
  const auto& from = job.snapshots.resumed();
  if (!from) {
    if (tells) {
      std::printf("no snapshot in %s: starting at epoch 1\n", job.options.snapshot_folder.c_str());
    }
    return {1, 0, {1, 0}};
  }
  worker::training_state(*job.network, job.optimizer).load(*from);
  const auto used = from->replicated.values.find("samples_used");
  if (used == from->replicated.values.end()) {
    throw std::runtime_error("snapshot " + from->path +
                             " is not of this program: it does not say "
                             "which samples were used");
  }
  const place here{
      from->info.epoch, from->info.step, {from->info.epoch, std::stoull(used->second)}};
  if (tells && here.epoch > job.options.epochs) {
    std::printf("snapshot %s: all %" PRIu64 " epochs are done\n", from->path.c_str(),
                job.options.epochs);
  } else if (tells) {
    std::printf("resuming from snapshot %s at epoch %" PRIu64 "%s\n", from->path.c_str(),
                here.epoch, here.samples.used == 0 ? "" : ", in its middle");
  }
  job.snapshots.drop_resumed();
  return here;
}

// Training goes on without a snapshot that could not be saved (rank 0 has said why), unless no
// later one can be.
void check(job& job, ddprun::error_code error) {
  if (error && job.snapshots.is_over()) throw std::runtime_error(job.snapshots.problem());
}

void tell_saved(job& job) {
  auto path = job.snapshots.saved();
  if (job.environment.rank != 0 || path == job.told) return;
  std::printf("epoch %" PRIu64 " | snapshot saved at %s\n", job.epochs_saved, path->c_str());
  job.told = std::move(path);
}

// Training goes on while it is written.
void save(job& job, const place& here) {
  check(job, job.snapshots.wait());  // for the one before, which is to be told as what it is
  tell_saved(job);
  auto state = worker::training_state(*job.network, job.optimizer).view();
  state.replicated.values["samples_used"] = std::to_string(here.samples.used);
  check(job, job.snapshots.save(here.step, here.epoch, state));
  job.epochs_saved = here.epoch - 1;
}

void open_metrics(job& job, std::uint64_t step) {
  if (job.environment.rank != 0 || job.options.metrics.empty()) return;
  auto file = worker::metrics_file::open(job.options.metrics, job.environment, step);
  if (!file) {
    throw std::runtime_error("cannot write " + job.options.metrics + ": " + file.error().message());
  }
  job.metrics.emplace(std::move(*file));
}

// What all ranks have found in an epoch; rank 0 tells it.
void tell_epoch(job& job, const place& here, worker::progress& shown, worker::meter& loss,
                worker::meter& accuracy) {
  worker::average_over_ranks(job.group, {&loss, &accuracy});
  if (job.environment.rank != 0) return;
  char text[80];
  std::snprintf(text, sizeof text, "loss %.4f | acc %.4f", loss.average(), accuracy.average());
  shown.finish(text);
  if (!job.metrics) return;
  const auto error = job.metrics->write(here.epoch, here.step,
                                        {{"loss", loss.average()},
                                         {"accuracy", accuracy.average()},
                                         {"samples_per_second", shown.samples_per_second()}});
  if (!error) return;
  std::fprintf(stderr, "cannot write %s: %s; going on without\n", job.options.metrics.c_str(),
               error.message().c_str());
  job.metrics.reset();
}

void tell_samples(const job& job, const place& here, std::span<const std::size_t> batch) {
  if (!job.options.tells_samples) return;
  std::string text;
  for (const std::size_t sample : batch)
    text += " " + std::to_string(sample);
  std::printf("[rank %" PRIu32 "] epoch %" PRIu64 " step %" PRIu64 " | samples%s\n",
              job.environment.rank, here.epoch, here.step, text.c_str());
}

// False: a stop was asked for, and all is saved.
bool train(job& job, digits& pictures, place here) {
  const auto images = images_of(pictures);
  const auto labels = labels_of(pictures);
  worker::distributed_data_parallel parallel(job.group, *job.network);
  parallel.warm_up([&] {
    return functional::nll_loss(parallel.forward(job.network, images.slice(0, 0, 1)),
                                labels.slice(0, 0, 1));
  });
  auto sampler = sampler_of(job, pictures.labels.size());

  for (; here.epoch <= job.options.epochs; ++here.epoch, here.samples = {here.epoch, 0}) {
    sampler.resume(here.samples);
    const auto indices = sampler.indices();
    worker::meter loss_here, accuracy;
    std::size_t used = 0;
    std::uint64_t batches_done = 0;
    const auto batches = worker::batches(indices, job.options.batch_size);
    worker::progress shown("epoch " + std::to_string(here.epoch), batches.size());
    for (const auto batch : batches) {
      const auto picked =
          torch::tensor(std::vector<std::int64_t>(batch.begin(), batch.end()), torch::kLong);
      parallel.zero_grad();
      const auto answers = parallel.forward(job.network, images.index_select(0, picked));
      const auto right = labels.index_select(0, picked);
      const auto loss = functional::nll_loss(answers, right);
      parallel.backward(loss);
      job.optimizer.step();
      const auto samples = static_cast<double>(batch.size());
      loss_here.add(loss.item<double>(), samples);
      accuracy.add(answers.argmax(1).eq(right).sum().item<double>() / samples, samples);
      used += batch.size();
      if (job.environment.rank == 0) {
        shown.update(++batches_done, used * job.environment.world_size);
      }
      check(job, job.snapshots.progress(++here.step));
      tell_samples(job, here, batch);
      tell_saved(job);
      // At the end of an epoch it is the next one's beginning that is kept, below.
      if (used < indices.size() && job.group.any(job.stop.has_come())) {
        here.samples = sampler.state(used);
        save(job, here);
        return false;
      }
    }
    std::printf("[rank %" PRIu32 "] epoch %" PRIu64 " | loss %.4f | %zu samples\n",
                job.environment.rank, here.epoch, loss_here.average(), indices.size());
    tell_epoch(job, here, shown, loss_here, accuracy);
    const bool stops = job.group.any(job.stop.has_come());
    const bool is_last = here.epoch == job.options.epochs;
    if (stops || is_last || here.epoch % job.options.snapshot_interval == 0) {
      save(job, {here.epoch + 1, here.step, {here.epoch + 1, 0}});
    }
    if (stops && !is_last) return false;
  }
  return true;
}

// Every rank looks at its share of the pictures; none is looked at twice.
void test(job& job, digits& pictures) {
  const torch::NoGradGuard no_grad;
  const auto count = static_cast<std::int64_t>(pictures.labels.size());
  const auto mine = torch::arange(job.environment.rank, count, job.environment.world_size);
  auto right = torch::zeros({1}, torch::kLong);
  if (mine.numel() > 0) {
    const auto answers = job.network->forward(images_of(pictures).index_select(0, mine)).argmax(1);
    right += answers.eq(labels_of(pictures).index_select(0, mine)).sum();
  }
  job.group.all_reduce_sum(right);
  if (job.environment.rank != 0) return;
  const auto right_count = right.item<std::int64_t>();
  std::printf("model checksum %s\n", examples::checksum(*job.network).c_str());
  std::printf("accuracy %.4f (%" PRId64 " of %" PRId64 " test pictures)\n",
              static_cast<double>(right_count) / static_cast<double>(count), right_count, count);
}

int run(const arguments& options) {
  const worker::stop_request stop;
  const auto environment = worker::read_environment(options.place);
  auto data = examples::read_digits(options.data);
  torch::set_num_threads(1);
  torch::manual_seed(options.seed);
  auto group = worker::process_group::join(environment);
  worker::snapshots_options keeping;
  keeping.folder = options.snapshot_folder;
  std::string problem;
  auto snapshots = worker::snapshots::open(environment, keeping, problem);
  if (!snapshots) throw std::runtime_error(problem);
  Network network;
  torch::optim::Adam optimizer(network->parameters(), torch::optim::AdamOptions(1e-3));
  job job{options, environment, group, network, optimizer, **snapshots, stop, 0, {}, {}};
  const place here = resume(job);
  open_metrics(job, here.step);
  const bool is_done = train(job, data.train, here);
  // Without the last one the job has not done what it was started for.
  if (job.snapshots.close()) throw std::runtime_error(job.snapshots.problem());
  tell_saved(job);
  if (is_done) test(job, data.test);
  group.close();
  return is_done || stop.signal() != SIGTERM ? 0 : worker::stopped_status;
}

}  // namespace
}  // namespace snapshot_resume

int main(int count, char** values) {
  const auto options = snapshot_resume::parse_arguments(count, values);
  return examples::run_program("snapshot_resume", [&] { return snapshot_resume::run(options); });
}
