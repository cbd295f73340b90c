// Trains a BERT encoder to tell texts apart, as people fine-tune one: AdamW with warm-up, clipped
// gradients, passes that only accumulate (no_sync), and gradients sent as bfloat16.
#include "examples/08_bert_classifier/arguments.hpp"
#include "examples/08_bert_classifier/bert.hpp"
#include "examples/08_bert_classifier/texts.hpp"
#include "examples/common/device.hpp"
#include "examples/common/program.hpp"
#include "worker/distributed_sampler.hpp"
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/metrics.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <optional>
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

// Samples as tensors over their own memory.
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

// Ranks with different texts would train on classes that mean different things.
void compare_texts(const worker::environment& here, worker::process_group& group,
                   const arguments& options, const texts& data) {
  std::string mine;
  for (const auto& name : data.classes)
    mine += name + '\n';
  for (const auto* part : {&data.train.tokens, &data.test.tokens})
    mine.append(reinterpret_cast<const char*>(part->data()), part->size() * sizeof(part->at(0)));
  const bool differs = group.broadcast_bytes(mine, 0) != mine;
  const bool any_differs = group.any(differs);  // before one of them leaves the others
  if (differs) {
    throw std::runtime_error("rank " + std::to_string(here.rank) + ": the texts in " +
                             options.data + " are not those that rank 0 has; copy them from there");
  }
  if (any_differs) throw std::runtime_error("another rank has other texts");
}

// BERT's way: weights decay, biases and norms do not.
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

// Up from almost nothing in the first tenth of the steps, then down again. `step` counts from 1.
void set_learning_rate(job& job, std::size_t step, std::size_t steps) {
  const std::size_t warm_up = std::max<std::size_t>(1, steps / 10);
  const double up = static_cast<double>(step) / static_cast<double>(warm_up);
  const double down =
      static_cast<double>(steps - step + 1) / static_cast<double>(steps - warm_up + 1);
  for (auto& parameters : job.optimizer.param_groups())
    parameters.options().set_lr(job.options.learning_rate * std::min(up, down));
}

struct epoch_found {
  worker::meter loss, accuracy;  // of this rank
  double gradient_norm = 0;      // of the last step, before it was clipped: equal on all ranks
};

epoch_found train(job& job, const table& samples, worker::distributed_data_parallel& parallel,
                  worker::distributed_sampler& sampler, std::uint64_t epoch) {
  job.network->train();
  sampler.set_epoch(epoch);
  const auto indices = sampler.indices();
  const auto passes = worker::batches(indices, job.options.batch_size);
  const std::size_t accumulate = job.options.accumulate;
  const std::size_t steps = (passes.size() + accumulate - 1) / accumulate;
  epoch_found found;
  parallel.zero_grad();
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    const auto& batch = passes[pass];
    const auto picked =
        torch::tensor(std::vector<std::int64_t>(batch.begin(), batch.end()), torch::kLong);
    const auto tokens = samples.tokens.index_select(0, picked).to(job.device);
    const auto labels = samples.labels.index_select(0, picked).to(job.device);
    const bool is_step = (pass + 1) % accumulate == 0 || pass + 1 == passes.size();
    std::optional<worker::distributed_data_parallel::no_sync_scope> here_only;
    if (!is_step) here_only.emplace(parallel);
    const auto answers = parallel.forward(job.network, tokens);
    const auto loss = functional::cross_entropy(answers, labels);
    parallel.backward(loss / static_cast<double>(accumulate));
    found.loss.add(loss.item<double>(), static_cast<double>(batch.size()));
    found.accuracy.add(answers.argmax(1).eq(labels).to(torch::kDouble).mean().item<double>(),
                       static_cast<double>(batch.size()));
    if (!is_step) continue;
    found.gradient_norm =
        torch::nn::utils::clip_grad_norm_(job.network->parameters(), job.options.clip);
    set_learning_rate(job, (epoch - 1) * steps + pass / accumulate + 1, job.options.epochs * steps);
    job.optimizer.step();
    parallel.zero_grad();
  }
  return found;
}

// Every rank looks at its share of the samples; none is looked at twice.
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

void run_epochs(job& job, texts& data) {
  const arguments& options = job.options;
  const auto train_samples = table_of(data.train, options.length);
  const auto test_samples = table_of(data.test, options.length);
  worker::distributed_sampler_options dealing;
  dealing.length = data.train.labels.size();
  dealing.world_size = job.here.world_size;
  dealing.rank = job.here.rank;
  dealing.seed = options.seed;
  worker::distributed_sampler sampler(dealing);
  worker::distributed_data_parallel_options how;
  if (options.sends_bf16) how.compression = worker::gradient_compression::bf16;
  worker::distributed_data_parallel parallel(job.group, *job.network, how);
  // From here on each rank leaves out other values.
  torch::manual_seed(options.seed + job.here.rank);
  for (std::uint64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    auto found = train(job, train_samples, parallel, sampler, epoch);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("rank %" PRIu32 " | epoch %" PRIu64 " | loss %.4f | gradient norm %.6f\n",
                job.here.rank, epoch, found.loss.average(), found.gradient_norm);
    worker::average_over_ranks(job.group, {&found.loss, &found.accuracy});
    const auto accuracy = test(job, test_samples);
    if (job.here.rank == 0) {
      std::printf("all    | epoch %" PRIu64 " | loss %.4f | accuracy %.4f | test accuracy %.4f\n",
                  epoch, found.loss.average(), found.accuracy.average(), accuracy.average());
      std::printf("epoch %" PRIu64 " took %.2f s, %.1f samples/s\n", epoch, took.count(),
                  static_cast<double>(sampler.size() * job.here.world_size) / took.count());
    }
    job.group.barrier();
  }
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
  run_epochs(job, data);
  group.close();
  return 0;
}

}  // namespace
}  // namespace bert_classifier

int main(int count, char** values) {
  const auto options = bert_classifier::parse_arguments(count, values);
  return examples::run_program("bert_classifier", [&] { return bert_classifier::run(options); });
}
