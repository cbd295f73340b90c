// What a step that was not finished, or the end of an epoch, has changed of what snapshots keep,
// put back: an emergency snapshot is of the last finished step.
//
//   buffers of the model and of kept modules, learning rates, texts,
//   kept tensors of up to 1 MiB        are put back
//   greater tensors, parameters and averages   are only looked at
//
// Thread rule: that of the model. Ownership: all of it is another's, and must outlive this.
// Errors: LibTorch's, and those of kept texts.
#pragma once

#include "worker/snapshot/snapshot_state.hpp"
#include "worker/torch/kept_state.hpp"
#include "worker/torch/tensor_mark.hpp"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::worker {

// Of a kept tensor: a copy of a greater one at each step would cost too much.
constexpr std::size_t put_back_bytes_max = std::size_t{1} << 20;

class unfinished_changes {
 public:
  unfinished_changes(const torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                     const kept_state& kept)
      : model_(model), optimizer_(optimizer), kept_(kept) {}

  // A step begins: nothing is to be changed before its update but what can be put back.
  void begin_step() { begin(true); }
  // The end of an epoch begins, where weights are swapped for their averages and back: they are not
  // looked at.
  void begin_epoch_end() { begin(false); }
  // What was begun last will not be finished. Says what was changed and cannot be put back, for a
  // person; empty: all is as it was. Nothing where none was begun.
  std::string put_back();

 private:
  struct part {
    std::string name;
    at::Tensor* variable = nullptr;  // the program's, which may be another tensor later
    at::Tensor tensor;
    bool is_weight = false;
    bool is_buffer = false;
    std::optional<tensor_mark> mark;
    at::Tensor copy;  // undefined: there is none
  };
  void begin(bool looks_at_weights);
  void collect();
  static void remember(part& of);
  static bool is_put_back(part& of);

  const torch::nn::Module& model_;
  torch::optim::Optimizer& optimizer_;
  const kept_state& kept_;
  std::vector<part> parts_;
  text_map texts_;
  std::vector<double> rates_;
  bool has_begun_ = false;
  bool looks_at_weights_ = true;
};

}  // namespace ddprun::worker
