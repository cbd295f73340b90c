// Distributed data parallel keeps the copies of a model equal on all ranks: it makes them equal at
// the start, and averages the gradients over the ranks while the backward pass is still running. It
// uses LibTorch's own c10d::Reducer, as Python's DistributedDataParallel does.
//
//   distributed_data_parallel parallel(group, *model);
//   parallel.zero_grad();
//   auto loss = nll_loss(parallel.forward(model, images), labels);
//   parallel.backward(loss);
//   optimizer.step();
//
// Every parameter must take part in every backward pass unless `find_unused_parameters` or
// `static_graph` is set. Use no_sync() for several backward passes in one step, and
// with_uneven_inputs() for ranks with fewer batches than others. Gradients of torch::nn::Embedding
// and EmbeddingBag may be sparse. A parameter that several modules share is averaged once.
//
// There is no SyncBatchNorm: each rank's BatchNorm uses the mean and variance of its own batch, and
// the running averages are rank 0's (broadcast_buffers).
//
// The order in which gradients are summed is only fixed by the first backward pass of a process. A
// program that must produce the same bits after a resume therefore runs one discarded pass at its
// start: see `warm_up`.
//
// Thread rule: one thread; all ranks make the same calls. Ownership: the module and the group must
// outlive it. Errors: process_group_error, as for process_group; std::invalid_argument for a model
// that cannot be trained this way. Exceptions of the model, the loss or a layer's own backward pass
// are passed on unchanged.
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

// The type in which gradients are sent and averaged; they are kept in their own type.
enum class gradient_compression { none, fp16, bf16 };

struct distributed_data_parallel_options {
  std::size_t bucket_bytes_max = std::size_t{25} << 20;       // gradients sent at a time
  std::size_t first_bucket_bytes_max = std::size_t{1} << 20;  // smaller, to start early
  bool find_unused_parameters = false;  // some passes may leave out parameters
  bool broadcast_buffers = true;        // copy rank 0's (BatchNorm) before each forward pass
  // Makes gradients views of the buckets, so that they take no memory of their own. They must then
  // be zeroed in place: by zero_grad() here, or an optimizer's with set_to_none = false.
  bool gradient_as_bucket_view = false;
  // Every pass uses the same parameters equally often, in the order of the first pass.
  bool static_graph = false;
  gradient_compression compression = gradient_compression::none;
};

// Where the time of a step goes on this rank, averaged over the steps that LibTorch samples: the
// first ten, and then each hundredth. All 0 before the second step.
struct step_times {
  double forward = 0;     // seconds
  double backward = 0;    // seconds, for this rank's own gradients
  double all_reduce = 0;  // seconds from the start of the first bucket to the end of the last
  double hidden = 0;      // seconds of that during which the backward pass was running
};

class distributed_data_parallel {
 public:
  // Checks that the module has the same parameters on all ranks, and sets them to rank 0's.
  distributed_data_parallel(process_group& group, torch::nn::Module& module,
                            distributed_data_parallel_options options = {});
  ~distributed_data_parallel();
  distributed_data_parallel(const distributed_data_parallel&) = delete;
  distributed_data_parallel& operator=(const distributed_data_parallel&) = delete;

  process_group& group() const { return group_; }
  torch::nn::Module& module() const { return module_; }

  // Runs one forward pass of `model` (a module holder), whose backward pass will average gradients.
  // It may return several tensors, in the types that output_tensors.hpp lists.
  template <typename Model, typename... Inputs>
  auto forward(Model& model, Inputs&&... inputs) {
    before_forward();
    auto output = model->forward(std::forward<Inputs>(inputs)...);
    std::vector<torch::Tensor> tensors;
    collect_tensors(output, tensors);
    after_forward(tensors);
    return output;
  }

  // On return every parameter's gradient is the average over the ranks, equal on all. While
  // no_sync() is held, it is the sum of this rank's own passes.
  void backward(const torch::Tensor& loss);

  // While an object of this class exists, passes only add to this rank's gradients. The first
  // backward pass after it averages the accumulated gradients.
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

  // Runs `train`, which may make fewer passes than on other ranks; until all ranks are done, this
  // one takes part in the others' passes with zero gradients. Then all ranks get the model of the
  // rank that finished last. All ranks must call it; it is Python's join(). With `by_all` gradients
  // are divided by the number of all ranks, otherwise by the number of those that are still
  // training.
  void with_uneven_inputs(const std::function<void()>& train, bool by_all = true);

  // Drops the gradients, or zeroes them in place with gradient_as_bucket_view.
  void zero_grad();

  step_times average_times() const;

  // Runs one pass whose only lasting effect is the order of the gradients: buffers (BatchNorm's
  // averages) and random generators are restored. `pass` returns a loss.
  void warm_up(const std::function<torch::Tensor()>& pass);

 private:
  void before_forward();
  void after_forward(const std::vector<torch::Tensor>& outputs);
  void make_reducer(const std::vector<std::string>& names);
  // Agrees on the rank whose model or buffers the others copy: the highest with `is_candidate`.
  std::uint32_t agree_on_rank(bool is_candidate);
  // The number of ranks for which `here` is true.
  std::int64_t count(bool here);
  void copy_buffers_from(std::uint32_t rank);
  void copy_model_from(std::uint32_t rank, bool with_buffers);
  void take_part_in_a_pass();
  void delay_reduction(const torch::Tensor& output);

  process_group& group_;
  torch::nn::Module& module_;
  distributed_data_parallel_options options_;
  std::vector<torch::Tensor> parameters_;
  std::vector<bool> sparse_;    // for each parameter: its gradient is sparse
  bool syncs_ = true;           // this pass averages gradients
  bool copies_buffers_ = true;  // the pass before averaged gradients
  bool is_uneven_ = false;      // within with_uneven_inputs()
  bool divides_by_all_ = true;
  // Static graph: true once its first pass is over.
  std::shared_ptr<bool> has_delayed_ = std::make_shared<bool>(false);
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

}  // namespace ddprun::worker
