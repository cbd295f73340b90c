#include "worker/torch/distributed_data_parallel.hpp"

#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>

namespace ddprun::worker {
namespace {

constexpr std::size_t broadcast_bytes_max = std::size_t{250} << 20;  // as Python's DDP

}  // namespace

distributed_data_parallel::distributed_data_parallel(process_group& group,
                                                     torch::nn::Module& module,
                                                     distributed_data_parallel_options options)
    : group_(group), module_(module), options_(options) {
  std::unordered_map<std::size_t, std::string> names;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    names.emplace(parameters_.size(), item.key());
    parameters_.push_back(item.value());
  }
  group.guarded("comparing models",
                [&] { c10d::verify_params_across_processes(group.native(), parameters_, {}); });
  group.guarded("copying the model from rank 0", [&] {
    torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> state;
    for (const auto& parameter : module.parameters())
      state.push_back(parameter.detach());
    for (const auto& buffer : module.buffers())
      state.push_back(buffer);
    if (!state.empty()) c10d::broadcast_coalesced(group.native(), state, broadcast_bytes_max, 0);
  });
  group.guarded("preparing the gradients' buckets", [&] {
    // One bucket at first, unless passes may differ; the first backward pass tells the order in
    // which gradients become ready, and the reducer makes its buckets by it.
    const std::vector<bool> dense(parameters_.size(), false);
    const std::vector<std::size_t> limits =
        options.find_unused_parameters
            ? std::vector<std::size_t>{options.first_bucket_bytes_max, options.bucket_bytes_max}
            : std::vector<std::size_t>{std::numeric_limits<std::int64_t>::max()};
    auto [buckets, bucket_limits] =
        c10d::compute_bucket_assignment_by_size(parameters_, limits, dense);
    // The last layers' gradients are ready first.
    std::reverse(buckets.begin(), buckets.end());
    reducer_ = std::make_shared<c10d::Reducer>(
        parameters_, buckets, group.native(), dense,
        static_cast<std::int64_t>(options.bucket_bytes_max), options.find_unused_parameters,
        /*gradient_as_bucket_view=*/false, names,
        static_cast<std::int64_t>(options.first_bucket_bytes_max),
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
        std::vector<std::int64_t>{});
    logger_ = std::make_shared<c10d::Logger>(reducer_);
    reducer_->set_logger(logger_);
    logger_->set_construction_data_and_log(module.name(), {}, -1, options.broadcast_buffers, false,
                                           false);
  });
}

distributed_data_parallel::~distributed_data_parallel() {
  // The hooks on the parameters call into the reducer, and parameters may live longer.
  reducer_->remove_autograd_hooks();
}

void distributed_data_parallel::before_forward() {
  if (!torch::GradMode::is_enabled()) return;
  group_.guarded("before the forward pass", [&] {
    logger_->set_runtime_stats_and_log();
    reducer_->prepare_for_forward();
    reducer_->rebuild_buckets();
    if (auto buffers = module_.buffers(); options_.broadcast_buffers && !buffers.empty()) {
      torch::NoGradGuard no_grad;
      c10d::broadcast_coalesced(group_.native(), buffers, broadcast_bytes_max, 0);
    }
  });
}

void distributed_data_parallel::after_forward(const torch::Tensor& output) {
  if (!torch::GradMode::is_enabled()) return;
  group_.guarded("after the forward pass", [&] {
    std::vector<torch::Tensor> outputs;
    if (options_.find_unused_parameters) outputs.push_back(output);
    reducer_->prepare_for_backward(outputs);
  });
}

void distributed_data_parallel::backward(const torch::Tensor& loss) {
  group_.guarded("averaging the gradients", [&] { loss.backward(); });
}

void distributed_data_parallel::zero_grad() {
  torch::NoGradGuard no_grad;
  for (auto& parameter : parameters_) {
    if (parameter.grad().defined()) parameter.mutable_grad().zero_();
  }
}

void distributed_data_parallel::warm_up(const std::function<torch::Tensor()>& pass) {
  zero_grad();
  backward(pass());
  zero_grad();
}

}  // namespace ddprun::worker
