// Trains on all ranks, saves a snapshot every few epochs, and goes on from the newest one when it
// is started again: after a crash, by ddprun, or tomorrow, by hand.
//
// A disturbed run ends with the same weights, bit by bit, as an undisturbed one: the order of the
// samples depends on seed and epoch alone, each rank computes on one thread, and gradients are
// summed in the same order from the first step of a process on (`warm_up`).
#include "examples/01_snapshot_resume/arguments.hpp"
#include "examples/01_snapshot_resume/digits.hpp"
#include "examples/01_snapshot_resume/network.hpp"
#include "worker/distributed_sampler.hpp"
#include "worker/environment.hpp"
#include "worker/snapshot.hpp"
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/process_group.hpp"
#include "worker/torch/snapshot_archive.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>

#include <cinttypes>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace snapshot_resume {
namespace {

namespace worker = ddprun::worker;
namespace functional = torch::nn::functional;

struct job {
  const arguments& options;
  const worker::environment& environment;
  worker::process_group& group;
  Network& network;
  torch::optim::Adam& optimizer;
  std::optional<worker::snapshot_writer> writer;  // rank 0's
};

// The sentence with path and reason is on standard error already.
std::runtime_error snapshot_failure() {
  return std::runtime_error("rank 0 stops: its snapshots cannot be read or saved, see above");
}

// Rank 0 takes the snapshot folder and its newest snapshot, and hands that to all ranks, so that
// all go on from the same one. Returns the number of epochs that are done.
std::uint64_t resume(job& job) {
  std::string bytes;
  if (job.environment.rank == 0) {
    worker::snapshot_options options;
    options.folder = job.options.snapshot_folder;
    options.instance = job.environment.instance;
    options.round = job.environment.round;
    auto& files = worker::posix_file_system();
    auto writer = worker::snapshot_writer::open(files, options);
    if (!writer) throw snapshot_failure();
    job.writer = std::move(*writer);
    auto newest = worker::newest_snapshot(files, options.folder, worker::write_to_stderr);
    if (!newest) throw snapshot_failure();
    if (!*newest) {
      std::printf("no snapshot in %s: starting at epoch 1\n", options.folder.c_str());
    } else if ((*newest)->info.epoch >= job.options.epochs) {
      std::printf("snapshot %s: all %" PRIu64 " epochs are done\n", (*newest)->path.c_str(),
                  job.options.epochs);
    } else {
      std::printf("resuming from snapshot %s at epoch %" PRIu64 "\n", (*newest)->path.c_str(),
                  (*newest)->info.epoch + 1);
    }
    if (*newest) bytes = std::move((*newest)->file);
  }
  bytes = job.group.broadcast_bytes(std::move(bytes), 0);
  if (bytes.empty()) return 0;
  const auto info = worker::check_snapshot(bytes);
  if (!info) throw std::runtime_error("rank 0 sent a snapshot that is damaged");
  worker::from_bytes(std::string_view(bytes).substr(worker::snapshot_header_bytes), *job.network,
                     job.optimizer);
  return info->epoch;
}

void save(job& job, std::uint64_t epoch) {
  if (!job.writer) return;
  const auto bytes = worker::to_bytes(*job.network, job.optimizer);
  const auto path = job.writer->save(epoch, epoch, bytes);
  if (!path) throw snapshot_failure();
  std::printf("epoch %" PRIu64 " | snapshot saved at %s\n", epoch, path->c_str());
}

void train(job& job, digits& pictures, std::uint64_t epochs_done) {
  const auto images = images_of(pictures);
  const auto labels = labels_of(pictures);
  worker::distributed_data_parallel parallel(job.group, *job.network);
  parallel.warm_up([&] {
    return functional::nll_loss(parallel.forward(job.network, images.slice(0, 0, 1)),
                                labels.slice(0, 0, 1));
  });
  worker::distributed_sampler_options sampling;
  sampling.length = pictures.labels.size();
  sampling.world_size = job.environment.world_size;
  sampling.rank = job.environment.rank;
  sampling.seed = job.options.seed;
  worker::distributed_sampler sampler(sampling);

  for (std::uint64_t epoch = epochs_done + 1; epoch <= job.options.epochs; ++epoch) {
    sampler.set_epoch(epoch);
    const auto indices = sampler.indices();
    double loss_sum = 0;
    for (const auto batch : worker::batches(indices, job.options.batch_size)) {
      const auto picked =
          torch::tensor(std::vector<std::int64_t>(batch.begin(), batch.end()), torch::kLong);
      parallel.zero_grad();
      const auto loss =
          functional::nll_loss(parallel.forward(job.network, images.index_select(0, picked)),
                               labels.index_select(0, picked));
      parallel.backward(loss);
      job.optimizer.step();
      loss_sum += loss.item<double>() * static_cast<double>(batch.size());
    }
    std::printf("[rank %" PRIu32 "] epoch %" PRIu64 " | loss %.4f | %zu samples\n",
                job.environment.rank, epoch, loss_sum / static_cast<double>(indices.size()),
                indices.size());
    if (epoch % job.options.snapshot_interval == 0 || epoch == job.options.epochs) {
      save(job, epoch);
    }
  }
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
  std::printf("model checksum %08" PRIx32 "\n", checksum(*job.network));
  std::printf("accuracy %.4f (%" PRId64 " of %" PRId64 " test pictures)\n",
              static_cast<double>(right_count) / static_cast<double>(count), right_count, count);
}

void run(const arguments& options) {
  const auto environment = worker::read_environment();
  auto data = read_digits(options.data);
  torch::set_num_threads(1);
  torch::manual_seed(options.seed);
  auto group = worker::process_group::join(environment);
  Network network;
  torch::optim::Adam optimizer(network->parameters(), torch::optim::AdamOptions(1e-3));
  job job{options, environment, group, network, optimizer, std::nullopt};
  const std::uint64_t epochs_done = resume(job);
  train(job, data.train, epochs_done);
  test(job, data.test);
  // Rank 0 may serve the store: nobody leaves before all are done.
  group.barrier();
}

}  // namespace
}  // namespace snapshot_resume

int main(int count, char** values) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto options = snapshot_resume::parse_arguments(count, values);
  try {
    snapshot_resume::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "snapshot_resume: %s\n", error.what());
    return 1;
  }
  return 0;
}
