#include "worker/torch/distributed_data_parallel.hpp"

#include "worker/torch/gradient_compression.hpp"
#include "worker/torch/model_tensors.hpp"
#include "worker/torch/untouched_state.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

namespace ddprun::worker {
namespace {

constexpr std::size_t broadcast_bytes_max = std::size_t{250} << 20;  // as in Python's DDP

}  // namespace

distributed_data_parallel::distributed_data_parallel(process_group& group,
                                                     torch::nn::Module& module,
                                                     distributed_data_parallel_options options)
    : group_(group), module_(module), options_(options) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : parameters_once(module)) {
    if (!parameter.requires_grad()) continue;
    names.push_back(name);
    parameters_.push_back(parameter);
  }
  if (parameters_.empty()) {
    throw std::invalid_argument(
        "distributed_data_parallel: no parameter of the model requires a gradient: there is "
        "nothing to average, use the model as it is");
  }
  sparse_ = which_are_sparse(module, parameters_);
  const bool has_sparse = std::find(sparse_.begin(), sparse_.end(), true) != sparse_.end();
  if (has_sparse && options.compression != gradient_compression::none) {
    throw std::invalid_argument(
        "distributed_data_parallel: sparse gradients cannot be compressed: make the embedding's "
        "gradients dense, or turn compression off");
  }
  group.guarded("comparing models",
                [&] { c10d::verify_params_across_processes(group.native(), parameters_, {}); });
  group.guarded("copying the model from rank 0",
                [&] { copy_model_from(0, /*with_buffers=*/true); });
  group.guarded("preparing the gradients' buckets", [&] { make_reducer(names); });
}

void distributed_data_parallel::make_reducer(const std::vector<std::string>& names) {
  // One bucket at first, unless passes may differ: the first backward pass shows the order in which
  // gradients become ready, and the reducer then builds its buckets in that order.
  const bool may_differ = options_.find_unused_parameters && !options_.static_graph;
  const std::vector<std::size_t> limits =
      may_differ
          ? std::vector<std::size_t>{options_.first_bucket_bytes_max, options_.bucket_bytes_max}
          : std::vector<std::size_t>{std::numeric_limits<std::int64_t>::max()};
  auto [buckets, bucket_limits] =
      c10d::compute_bucket_assignment_by_size(parameters_, limits, sparse_);
  // The gradients of the last layers are ready first.
  std::reverse(buckets.begin(), buckets.end());
  std::unordered_map<std::size_t, std::string> names_by_index;
  for (std::size_t index = 0; index < names.size(); ++index)
    names_by_index.emplace(index, names[index]);
  reducer_ = std::make_shared<c10d::Reducer>(
      parameters_, buckets, group_.native(), sparse_,
      static_cast<std::int64_t>(options_.bucket_bytes_max), options_.find_unused_parameters,
      options_.gradient_as_bucket_view, names_by_index,
      static_cast<std::int64_t>(options_.first_bucket_bytes_max),
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<std::int64_t>{});
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  compress_gradients(*reducer_, group_.native(), options_.compression);
  if (options_.static_graph) reducer_->set_static_graph();
  logger_->set_construction_data_and_log(module_.name(), {}, -1, options_.broadcast_buffers, false,
                                         options_.static_graph);
}

distributed_data_parallel::~distributed_data_parallel() {
  // The parameters may outlive this object, and their hooks call into the reducer.
  reducer_->remove_autograd_hooks();
}

void distributed_data_parallel::copy_model_from(std::uint32_t rank, bool with_buffers) {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> state;
  for (const auto& [name, parameter] : parameters_once(module_))
    state.push_back(parameter.detach());
  if (with_buffers) {
    for (const auto& buffer : module_.buffers())
      state.push_back(buffer);
  }
  if (state.empty()) return;
  c10d::broadcast_coalesced(group_.native(), state, broadcast_bytes_max, static_cast<int>(rank));
}

void distributed_data_parallel::copy_buffers_from(std::uint32_t rank) {
  torch::NoGradGuard no_grad;
  auto buffers = module_.buffers();
  c10d::broadcast_coalesced(group_.native(), buffers, broadcast_bytes_max, static_cast<int>(rank));
}

// The order of messages is that of Python's DistributedDataParallel; ranks that have run out of
// inputs follow it in take_part_in_a_pass(). Unlike there, a pass without gradients is local, so
// that rank 0 can evaluate alone.
void distributed_data_parallel::before_forward() {
  if (!torch::GradMode::is_enabled()) return;
  group_.guarded("before the forward pass", [&] {
    if (syncs_) {
      logger_->set_runtime_stats_and_log();
      reducer_->prepare_for_forward();
    }
    if (is_uneven_) {
      std::vector<torch::Tensor> one{torch::ones({1})};
      reducer_->set_forward_pass_work_handle(group_.native()->allreduce(one), divides_by_all_);
    }
    reducer_->rebuild_buckets();
    if (copies_buffers_ && options_.broadcast_buffers && !module_.buffers().empty())
      copy_buffers_from(is_uneven_ ? agree_on_rank(true) : 0);
    if (is_uneven_) count(syncs_);
  });
}

void distributed_data_parallel::after_forward(const std::vector<torch::Tensor>& outputs) {
  if (!torch::GradMode::is_enabled()) return;
  copies_buffers_ = syncs_;
  if (!syncs_) return;
  group_.guarded("after the forward pass", [&] {
    const bool looks = options_.find_unused_parameters && !options_.static_graph;
    reducer_->prepare_for_backward(looks ? outputs : std::vector<torch::Tensor>{});
    if (!options_.static_graph || *has_delayed_) return;
    for (const auto& output : outputs)
      delay_reduction(output);
  });
}

// The first pass of a static graph only counts how often each parameter is used, so its gradients
// are sent after the whole pass.
void distributed_data_parallel::delay_reduction(const torch::Tensor& output) {
  if (!output.requires_grad()) return;
  // Hold the reducer weakly: the output may outlive this object.
  output.register_hook(
      [reducer = std::weak_ptr(reducer_), done = has_delayed_](const torch::Tensor& gradient) {
        const auto held = reducer.lock();
        if (held && !std::exchange(*done, true)) {
          torch::autograd::Engine::get_default_engine().queue_callback(
              [held] { held->delay_all_reduce(); });
        }
        return gradient;
      });
}

void distributed_data_parallel::backward(const torch::Tensor& loss) {
  group_.guarded_with_own("averaging the gradients", [&] { loss.backward(); });
}

void distributed_data_parallel::zero_grad() {
  for (auto& parameter : parameters_) {
    auto& gradient = parameter.mutable_grad();
    if (!gradient.defined()) continue;
    if (options_.gradient_as_bucket_view) {
      torch::NoGradGuard no_grad;
      gradient.zero_();
    } else {
      gradient.reset();  // saves the backward pass an addition
    }
  }
}

step_times distributed_data_parallel::average_times() const {
  const auto found = logger_->get_ddp_logging_data().ints_map;
  const auto seconds = [&](const char* name) {
    const auto at = found.find(name);  // nanoseconds
    return at == found.end() ? 0 : static_cast<double>(at->second) * 1e-9;
  };
  return {seconds("avg_forward_compute_time"), seconds("avg_backward_compute_time"),
          seconds("avg_backward_comm_time"), seconds("avg_backward_compute_comm_overlap_time")};
}

void distributed_data_parallel::warm_up(const std::function<torch::Tensor()>& pass) {
  const untouched_state untouched(module_);
  zero_grad();
  backward(pass());
  zero_grad();
  untouched.put_back();
}

}  // namespace ddprun::worker
