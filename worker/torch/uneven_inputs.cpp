// Support for ranks with fewer inputs than others. The order of messages is that of Python's
// DistributedDataParallel and its join (torch/distributed/algorithms/join.py, class Join;
// torch/nn/parallel/distributed.py, _DDPJoinHook).
#include "worker/torch/distributed_data_parallel.hpp"

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/types.h>

#include <stdexcept>

namespace ddprun::worker {

std::int64_t distributed_data_parallel::count(bool here) {
  std::vector<torch::Tensor> sum{torch::full({1}, here ? 1.0F : 0.0F)};
  group_.native()->allreduce(sum)->wait();
  return static_cast<std::int64_t>(sum[0].item<float>());
}

std::uint32_t distributed_data_parallel::agree_on_rank(bool is_candidate) {
  const std::int64_t own = is_candidate ? static_cast<std::int64_t>(group_.rank()) : -1;
  std::vector<torch::Tensor> greatest{torch::full({1}, own, torch::kLong)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  group_.native()->allreduce(greatest, options)->wait();
  return static_cast<std::uint32_t>(greatest[0].item<std::int64_t>());
}

// Sends what a pass of the training ranks sends, with zero gradients.
void distributed_data_parallel::take_part_in_a_pass() {
  reducer_->rebuild_buckets();
  if (copies_buffers_ && options_.broadcast_buffers && !module_.buffers().empty())
    copy_buffers_from(agree_on_rank(false));
  copies_buffers_ = count(false) != 0;
  if (!copies_buffers_) return;
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> sent;
  for (auto& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/true))
    sent.push_back(reducer_->run_comm_hook(bucket));
  for (const auto& one : sent)
    one->waitAndThrow();
  if (options_.find_unused_parameters) {
    std::vector<torch::Tensor> used{reducer_->get_local_used_map_on_device()};
    group_.native()->allreduce(used)->wait();
  }
  reducer_->push_rebuilt_params_for_all_indices();
}

void distributed_data_parallel::with_uneven_inputs(const std::function<void()>& train,
                                                   bool by_all) {
  if (!group_.has_gloo()) {
    throw std::invalid_argument(
        "distributed_data_parallel: with_uneven_inputs counts ranks over Gloo, which this group "
        "was made without");
  }
  logger_->set_uneven_input_join();
  divides_by_all_ = by_all;
  group_.begin_uneven_calls();
  {
    struct scope {
      bool& flag;
      ~scope() { flag = false; }
    };
    is_uneven_ = true;
    const scope within{is_uneven_};
    train();
  }
  group_.guarded("waiting for ranks with more inputs", [&] {
    bool is_last = true;
    for (; count(false) != 0; is_last = false)
      take_part_in_a_pass();
    copy_model_from(agree_on_rank(is_last), options_.broadcast_buffers);
  });
  group_.end_uneven_calls();
}

}  // namespace ddprun::worker
