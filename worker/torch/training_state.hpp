// The state of a training job as tensors for worker/snapshot to save: a model, its optimizer, and
// the random generators of each rank, under the names and with the types of Python's state_dict.
//
//   model.NAME                   each parameter and buffer
//   optimizer.state.N.FIELD      of the Nth parameter: exp_avg, exp_avg_sq, step (F32), ...
//   optimizer.lr                 a value: the learning rate of each parameter group, as JSON
//   generator.cpu, generator.cuda  each rank's own
//
//   training_state training(*model, optimizer);
//   if (const auto& from = kept->resumed()) training.load(*from);
//   auto state = training.view();
//   state.replicated.values["sampler"] = ...;          // what else the program needs to resume
//   kept->save(step, epoch, state);                    // and after each step kept->progress(step)
//
// Supported optimizers are Adam, AdamW, SGD, RMSprop and Adagrad. Except for the learning rate
// their settings are not saved, since the program sets them.
//
// Thread rule: one thread, which must not train meanwhile. Ownership: model and optimizer must
// outlive it, and the tensors of a view must not change until save() has returned, or longer after
// begin_save(). Errors: training_state_error, whose text lists what does not fit.
#pragma once

#include "worker/snapshot/snapshots.hpp"
#include "worker/torch/tensor_bytes.hpp"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun::worker {

class training_state {
 public:
  // Throws training_state_error if the optimizer is not supported.
  training_state(torch::nn::Module& model, torch::optim::Optimizer& optimizer);

  // Tensors in host memory are not copied; others are fetched when the snapshot copies them.
  // Parameters and the optimizer's state may be copied late; buffers and generators, which a
  // forward pass changes, may not.
  snapshot_state view() const;
  // What of it may be late, under its names.
  std::vector<std::pair<std::string, at::Tensor>> late_tensors() const;

  // Compares all names, types and shapes before it changes anything. If the snapshot is of another
  // number of ranks, the generators keep their state.
  void load(const resumed_snapshot& from);

 private:
  torch::nn::Module& model_;
  torch::optim::Optimizer& optimizer_;
};

}  // namespace ddprun::worker
