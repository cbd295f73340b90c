// Distributed data parallel keeps the copies of a model equal on all ranks: it starts them equal,
// and averages the gradients over the ranks while the backward pass still runs, with LibTorch's own
// c10d::Reducer, as Python's DistributedDataParallel does.
//
//   distributed_data_parallel parallel(group, *model);
//   parallel.zero_grad();
//   auto loss = nll_loss(parallel.forward(model, images), labels);
//   parallel.backward(loss);
//   optimizer.step();
//
// Every parameter must take part in every backward pass unless `find_unused_parameters` or
// `static_graph` is set. Several backward passes for one step: no_sync(). Ranks with fewer batches
// than others: with_uneven_inputs(). Gradients of torch::nn::Embedding and EmbeddingBag may be
// sparse. A parameter that several modules share is averaged once.
//
// There is no SyncBatchNorm: each rank's BatchNorm takes mean and variance of its own batch, and
// the running ones are rank 0's (broadcast_buffers).
//
// The order in which gradients are summed is fixed by the first backward pass of a process, not
// before it. A program that must give the same bits when it is resumed runs one pass for nothing at
// its start: `warm_up`.
//
// Thread rule: one thread; all ranks in step. Ownership: the module and the group must outlive it.
// Errors: process_group_error, as of process_group; std::invalid_argument for a model that cannot
// be trained so. What the model, the loss or a layer's own backward pass throws comes as it is.
#pragma once

#include "worker/torch/output_tensors.hpp"
#include "worker/torch/process_group.hpp"

#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace c10d {
class Reducer;
class Logger;
}  // namespace c10d

namespace ddprun::worker {

// What gradients are sent as; they are averaged in that type, and kept in their own.
enum class gradient_compression { none, fp16, bf16 };

struct distributed_data_parallel_options {
  std::size_t bucket_bytes_max = std::size_t{25} << 20;       // gradients sent at a time
  std::size_t first_bucket_bytes_max = std::size_t{1} << 20;  // smaller, so that sending starts
  bool find_unused_parameters = false;  // some parameters may get no gradient in some passes
  bool broadcast_buffers = true;        // rank 0's buffers (BatchNorm) before each forward pass
  // Gradients are views of the buckets, and take no memory of their own. Zero them where they are:
  // zero_grad() here, or that of an optimizer with set_to_none = false.
  bool gradient_as_bucket_view = false;
  // Every pass uses the same parameters, in the same order, as often: the first one tells which.
  bool static_graph = false;
  gradient_compression compression = gradient_compression::none;
};

// Where the time of a step goes on this rank: averages of the steps that LibTorch samples, which
// are the first ten and then each hundredth. All 0 before the second step.
struct step_times {
  double forward = 0;     // seconds
  double backward = 0;    // seconds, of this rank's own gradients
  double all_reduce = 0;  // seconds from the first bucket's start to the last one's end
  double hidden = 0;      // the seconds of that in which the backward pass still ran
};

class distributed_data_parallel {
 public:
  // Checks that the module has the same parameters on all ranks, and makes them rank 0's.
  distributed_data_parallel(process_group& group, torch::nn::Module& module,
                            distributed_data_parallel_options options = {});
  ~distributed_data_parallel();
  distributed_data_parallel(const distributed_data_parallel&) = delete;
  distributed_data_parallel& operator=(const distributed_data_parallel&) = delete;

  process_group& group() const { return group_; }
  torch::nn::Module& module() const { return module_; }

  // One forward pass of `model` (a module holder) whose backward pass will average gradients. It
  // may return several tensors: output_tensors.hpp says in what.
  template <typename Model, typename... Inputs>
  auto forward(Model& model, Inputs&&... inputs) {
    before_forward();
    auto output = model->forward(std::forward<Inputs>(inputs)...);
    std::vector<torch::Tensor> tensors;
    collect_tensors(output, tensors);
    after_forward(tensors);
    return output;
  }

  // On return every parameter's gradient is the average over the ranks, equal on all; while
  // no_sync() is held, the sum of this rank's own.
  void backward(const torch::Tensor& loss);

  // As long as this lives, passes of forward and backward only add to this rank's gradients. The
  // first backward pass after that averages what has come together.
  class no_sync_scope {
   public:
    explicit no_sync_scope(distributed_data_parallel& of)
        : syncs_(of.syncs_), before_(std::exchange(of.syncs_, false)) {}
    ~no_sync_scope() { syncs_ = before_; }
    no_sync_scope(const no_sync_scope&) = delete;
    no_sync_scope& operator=(const no_sync_scope&) = delete;

   private:
    bool& syncs_;
    bool before_;
  };
  [[nodiscard]] no_sync_scope no_sync() { return no_sync_scope(*this); }

  // Runs `train`, which may make fewer passes than on other ranks: until all are through, this rank
  // takes part in the others' with gradients of zero. Then all get the model of the rank that was
  // last. Called by all ranks; as Python's join(). `by_all`: gradients are divided by the number of
  // all ranks, else by that of those which still train.
  void with_uneven_inputs(const std::function<void()>& train, bool by_all = true);

  // Drops the gradients; with gradient_as_bucket_view zeroes them where they are.
  void zero_grad();

  step_times average_times() const;

  // One pass that leaves no trace but the order of the gradients: buffers (BatchNorm's averages)
  // and random generators are put back. `pass` returns a loss.
  void warm_up(const std::function<torch::Tensor()>& pass);

 private:
  void before_forward();
  void after_forward(const std::vector<torch::Tensor>& outputs);
  void make_reducer(const std::vector<std::string>& names);
  // The rank whose model or buffers the others take: the greatest of those with `is_candidate`.
  std::uint32_t agree_on_rank(bool is_candidate);
  // The number of ranks that say so.
  std::int64_t count(bool here);
  void copy_buffers_from(std::uint32_t rank);
  void copy_model_from(std::uint32_t rank, bool with_buffers);
  void take_part_in_a_pass();
  void delay_reduction(const torch::Tensor& output);

  process_group& group_;
  torch::nn::Module& module_;
  distributed_data_parallel_options options_;
  std::vector<torch::Tensor> parameters_;
  std::vector<bool> sparse_;    // for each of them: its gradient is
  bool syncs_ = true;           // this pass averages gradients
  bool copies_buffers_ = true;  // the pass before did
  bool is_uneven_ = false;      // within with_uneven_inputs()
  bool divides_by_all_ = true;
  // Of a static graph: its first pass is over.
  std::shared_ptr<bool> has_delayed_ = std::make_shared<bool>(false);
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

}  // namespace ddprun::worker
