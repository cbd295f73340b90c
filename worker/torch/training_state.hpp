// The state of a training job as tensors, for worker/snapshot to keep: a model, its optimizer, and
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
//   state.replicated.values["sampler"] = ...;          // what else the program needs to go on
//   kept->save(step, epoch, state);                    // and after each step kept->progress(step)
//
// Optimizers: Adam, AdamW, SGD, RMSprop, Adagrad. Their settings but the learning rate are the
// program's: they are not kept.
//
// Thread rule: one thread, which does not train meanwhile. Ownership: model and optimizer must
// outlive it, and what a view shows must stay as it is until save() is over (begin_save(): later).
// Errors: training_state_error, whose text lists what does not fit.
#pragma once

#include "worker/snapshot/snapshots.hpp"
#include "worker/torch/tensor_bytes.hpp"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

namespace ddprun::worker {

class training_state {
 public:
  // An optimizer of another kind is an error.
  training_state(torch::nn::Module& model, torch::optim::Optimizer& optimizer);

  // Tensors in host memory lie where they are; others are fetched when the snapshot copies them.
  // Parameters, and what the optimizer keeps of each, may be late; buffers and generators, which a
  // forward pass changes, may not.
  snapshot_state view() const;

  // All names, types and shapes are compared before the first one is changed. Generators stay as
  // they are where the snapshot is of another number of ranks.
  void load(const resumed_snapshot& from);

 private:
  torch::nn::Module& model_;
  torch::optim::Optimizer& optimizer_;
};

}  // namespace ddprun::worker
