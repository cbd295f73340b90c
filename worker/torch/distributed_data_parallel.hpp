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
// Every parameter must take part in every backward pass unless `find_unused_parameters` is set.
//
// The order in which gradients are summed is fixed by the first backward pass of a process, not
// before it. A program that must give the same bits when it is resumed runs one pass for nothing at
// its start: `warm_up`.
//
// Thread rule: one thread; all ranks in step. Ownership: the module and the group must outlive it.
// Errors: process_group_error, as of process_group.
#pragma once

#include "worker/torch/process_group.hpp"

#include <torch/nn/module.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace c10d {
class Reducer;
class Logger;
}  // namespace c10d

namespace ddprun::worker {

struct distributed_data_parallel_options {
  std::size_t bucket_bytes_max = std::size_t{25} << 20;       // gradients sent at a time
  std::size_t first_bucket_bytes_max = std::size_t{1} << 20;  // smaller, so that sending starts
  bool find_unused_parameters = false;  // some parameters may get no gradient in some passes
  bool broadcast_buffers = true;        // rank 0's buffers (BatchNorm) before each forward pass
};

class distributed_data_parallel {
 public:
  // Checks that the module has the same parameters on all ranks, and makes them rank 0's.
  distributed_data_parallel(process_group& group, torch::nn::Module& module,
                            distributed_data_parallel_options options = {});
  ~distributed_data_parallel();
  distributed_data_parallel(const distributed_data_parallel&) = delete;
  distributed_data_parallel& operator=(const distributed_data_parallel&) = delete;

  // One forward pass of `model` (a module holder) whose backward pass will average gradients.
  template <typename Model, typename... Inputs>
  torch::Tensor forward(Model& model, Inputs&&... inputs) {
    before_forward();
    torch::Tensor output = model->forward(std::forward<Inputs>(inputs)...);
    after_forward(output);
    return output;
  }

  // On return every parameter's gradient is the average over the ranks, equal on all.
  void backward(const torch::Tensor& loss);

  // Zeroes the gradients where they are, and leaves the tensors: those of an optimizer would free
  // them, and the reducer's next pass would allocate them again.
  void zero_grad();

  // One pass that leaves no trace but the order of the gradients. `pass` returns a loss.
  void warm_up(const std::function<torch::Tensor()>& pass);

 private:
  void before_forward();
  void after_forward(const torch::Tensor& output);

  process_group& group_;
  torch::nn::Module& module_;
  distributed_data_parallel_options options_;
  std::vector<torch::Tensor> parameters_;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

}  // namespace ddprun::worker
