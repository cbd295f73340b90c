// Restores what an unfinished step, or the end of an epoch, has changed of the state in snapshots,
// because an emergency snapshot must be of the last finished step.
//
//   buffers of the model and of kept modules, learning rates, texts,
//   kept tensors of up to 1 MiB                 are restored
//   larger tensors, parameters and averages     are only checked for changes
//
// Thread rule: that of the model. Ownership: everything belongs to others, and must outlive it.
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

// The limit of a kept tensor: copying a larger one at each step would cost too much.
constexpr std::size_t put_back_bytes_max = std::size_t{1} << 20;

class unfinished_changes {
 public:
  unfinished_changes(const torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                     const kept_state& kept)
      : model_(model), optimizer_(optimizer), kept_(kept) {}

  // A step begins: before its update nothing may change that cannot be restored.
  void begin_step() { begin(true); }
  // The end of an epoch begins. Weights may be swapped for their averages and back, so they are not
  // checked.
  void begin_epoch_end() { begin(false); }
  // Ends what was begun last as unfinished. Restores the changes, and returns a text about those
  // that cannot be restored; empty if there are none, or if nothing was begun.
  std::string put_back();

 private:
  struct part {
    std::string name;
    at::Tensor* variable = nullptr;  // the program's variable, which may later be another tensor
    at::Tensor tensor;
    bool is_weight = false;
    bool is_buffer = false;
    std::optional<tensor_mark> mark;
    at::Tensor copy;  // undefined if there is none
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
