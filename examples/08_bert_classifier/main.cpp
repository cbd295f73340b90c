// Trains a BERT encoder to classify texts, as in fine-tuning: AdamW with warm-up, clipped
// gradients, gradient accumulation (no_sync), and gradients sent as bfloat16.
#include "examples/08_bert_classifier/arguments.hpp"
#include "examples/08_bert_classifier/bert.hpp"
#include "examples/08_bert_classifier/texts.hpp"
#include "examples/common/device.hpp"
#include "examples/common/program.hpp"
#include "worker/snapshot/checksum.hpp"
#include "worker/torch/metrics.hpp"
#include "worker/torch/training_loop.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace bert_classifier {
namespace {

namespace worker = ddprun::worker;
namespace functional = torch::nn::functional;

struct job {
  const arguments& options;
  const worker::environment& here;
  torch::Device device;
  worker::process_group& group;
  Bert& network;
  torch::optim::AdamW& optimizer;
};

// Tensors on the memory of the samples, which must outlive them.
struct table {
  torch::Tensor tokens;  // [N, length]
  torch::Tensor labels;  // [N]
};

table table_of(samples& from, std::uint64_t length) {
  const auto count = static_cast<std::int64_t>(from.labels.size());
  const std::int64_t shape[] = {count, static_cast<std::int64_t>(length)};
  return {torch::from_blob(from.tokens.data(), shape, torch::kLong),
          torch::from_blob(from.labels.data(), {count}, torch::kLong)};
}

// Compares checksums of the texts: ranks with different texts would train on different classes.
void compare_texts(const worker::environment& here, worker::process_group& group,
                   const arguments& options, const texts& data) {
  worker::checksum sum;  // a checksum, as the texts are too large for the job store
  for (const auto& name : data.classes)
    sum.add(name + '\n');
  for (const auto* part : {&data.train.tokens, &data.test.tokens}) {
    sum.add({reinterpret_cast<const char*>(part->data()), part->size() * sizeof(part->at(0))});
  }
  const std::string mine = worker::checksum_text(sum.value());
  const bool differs = group.broadcast_bytes(mine, 0) != mine;
  const bool any_differs = group.any(differs);  // all ranks learn of it before one throws
  if (differs) {
    throw std::runtime_error("rank " + std::to_string(here.rank) + ": the texts in " +
                             options.data + " are not those that rank 0 has; copy them from there");
  }
  if (any_differs) throw std::runtime_error("another rank has other texts");
}

// As in BERT, weights decay, while biases and norms do not.
torch::optim::AdamW make_optimizer(const arguments& options, BertImpl& network) {
  std::vector<torch::Tensor> decaying, others;
  for (const auto& parameter : network.parameters())
    (parameter.dim() > 1 ? decaying : others).push_back(parameter);
  const auto settings = torch::optim::AdamWOptions(options.learning_rate);
  const auto with_decay = [&](double decay) {
    auto all = std::make_unique<torch::optim::AdamWOptions>(settings);
    all->weight_decay(decay);
    return all;
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decaying, with_decay(options.weight_decay));
  groups.emplace_back(others, with_decay(0));
  return torch::optim::AdamW(groups, settings);
}

// The rate rises during the first tenth of the steps and then falls. `step` counts from 1.
double learning_rate(const arguments& options, std::uint64_t step, std::uint64_t steps) {
  const std::uint64_t warm_up = std::max<std::uint64_t>(1, steps / 10);
  const double up = static_cast<double>(step) / static_cast<double>(warm_up);
  const double down =
      static_cast<double>(steps - step + 1) / static_cast<double>(steps - warm_up + 1);
  return options.learning_rate * std::min(up, down);
}

// Each rank tests its share of the samples, so that none is counted twice.
worker::meter test(job& job, const table& samples) {
  const torch::NoGradGuard no_grad;
  job.network->eval();
  const auto count = samples.labels.size(0);
  worker::meter accuracy;
  const auto mine = torch::arange(job.here.rank, count, job.here.world_size);
  for (const auto& picked : mine.split(static_cast<std::int64_t>(job.options.batch_size))) {
    if (picked.numel() == 0) continue;
    const auto answers =
        job.network->forward(samples.tokens.index_select(0, picked).to(job.device)).argmax(1);
    const auto labels = samples.labels.index_select(0, picked).to(job.device);
    accuracy.add(answers.eq(labels).to(torch::kDouble).mean().item<double>(),
                 static_cast<double>(picked.numel()));
  }
  worker::average_over_ranks(job.group, {&accuracy});
  return accuracy;
}

worker::training_loop_options loop_options(const arguments& options, std::size_t samples,
                                           std::uint32_t world_size) {
  worker::training_loop_options made;
  made.samples = samples;
  made.batch_size = options.batch_size;
  made.epochs = options.epochs;
  made.passes_per_step = options.accumulate;
  made.seed = options.seed;
  made.clip_norm = options.clip;
  made.shows_progress = false;
  const auto up = [](std::uint64_t count, std::uint64_t by) { return (count + by - 1) / by; };
  const auto passes = up(up(samples, world_size), options.batch_size);
  const auto steps = options.epochs * up(passes, options.accumulate);
  made.learning_rate = [&options, steps](std::uint64_t step) {
    return learning_rate(options, step, steps);
  };
  return made;
}

void tell_epoch(job& job, const worker::epoch_end& done, double gradient_norm,
                const worker::meter& accuracy) {
  std::printf("rank %" PRIu32 " | epoch %" PRIu64 " | loss %.4f | gradient norm %.6f\n",
              job.here.rank, done.epoch, done.own.at(0).second.average(), gradient_norm);
  if (job.here.rank != 0) return;
  std::printf("all    | epoch %" PRIu64 " | loss %.4f | accuracy %.4f | test accuracy %.4f\n",
              done.epoch, done.all.at(0).second.average(), done.all.at(1).second.average(),
              accuracy.average());
  std::printf("epoch %" PRIu64 " took %.2f s, %.1f samples/s\n", done.epoch, done.seconds,
              static_cast<double>(done.samples * job.here.world_size) / done.seconds);
}

int run_epochs(job& job, texts& data) {
  const arguments& options = job.options;
  const auto train_samples = table_of(data.train, options.length);
  const auto test_samples = table_of(data.test, options.length);
  worker::distributed_data_parallel_options how;
  if (options.sends_bf16) how.compression = worker::gradient_compression::bf16;
  worker::distributed_data_parallel parallel(job.group, *job.network, how);
  // From here on each rank draws its own dropout.
  torch::manual_seed(options.seed + job.here.rank);
  worker::training_loop loop(parallel, job.optimizer,
                             loop_options(options, data.train.labels.size(), job.here.world_size));
  loop.on_epoch_end([&](const worker::epoch_end& done) {
    const auto accuracy = test(job, test_samples);
    tell_epoch(job, done, loop.gradient_norm(), accuracy);
  });
  loop.run([&](worker::training_batch& batch) {
    const auto picked = batch.tensor();
    const auto tokens = train_samples.tokens.index_select(0, picked).to(job.device);
    const auto labels = train_samples.labels.index_select(0, picked).to(job.device);
    const auto answers = parallel.forward(job.network, tokens);
    batch.report("accuracy", answers.argmax(1).eq(labels).to(torch::kDouble).mean());
    return functional::cross_entropy(answers, labels);
  });
  return loop.status();
}

int run(const arguments& options) {
  const auto here = worker::read_environment(options.place);
  auto data = read_texts(options.data, options.length, options.vocabulary);
  auto [device, group] = examples::join(here);
  compare_texts(here, group, options, data);
  bert_options shape;
  shape.size = options.size;
  shape.vocabulary = static_cast<std::int64_t>(data.vocabulary);
  shape.length = static_cast<std::int64_t>(options.length);
  shape.classes = static_cast<std::int64_t>(data.classes.size());
  shape.dropout = options.dropout;
  Bert network(shape);
  torch::manual_seed(options.seed);
  network->initialize();
  network->to(device);
  if (here.rank == 0) {
    std::size_t parameters = 0;
    for (const auto& each : network->parameters())
      parameters += static_cast<std::size_t>(each.numel());
    std::printf(
        "%zu classes, %zu samples to train on, %zu for the test; %zu words; "
        "%zu parameters\n",
        data.classes.size(), data.train.labels.size(), data.test.labels.size(), data.vocabulary,
        parameters);
  }
  auto optimizer = make_optimizer(options, *network);
  job job{options, here, device, group, network, optimizer};
  const int status = run_epochs(job, data);
  group.close();
  return status;
}

}  // namespace
}  // namespace bert_classifier

int main(int count, char** values) {
  const auto options = bert_classifier::parse_arguments(count, values);
  return examples::run_program("bert_classifier", [&] { return bert_classifier::run(options); });
}
