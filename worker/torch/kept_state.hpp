// What a program saves in snapshots besides its model and optimizer, each under a name: a tensor, a
// module, an average of the model's weights, a learning rate scheduler, or a text.
//
//   kept.NAME          a tensor
//   kept.NAME.TENSOR   each parameter and buffer of a module, or of an average
//   kept.NAME          a value: a scheduler's steps, an average's updates, or a text
//
// Thread rule: one thread, that of the model. Ownership: what is added must outlive it.
// Errors: std::invalid_argument if a name is empty or taken; training_state_error, whose text says
// what does not fit.
#pragma once

#include "worker/snapshot/snapshots.hpp"
#include "worker/torch/exponential_moving_average.hpp"
#include "worker/torch/tensor_bytes.hpp"

#include <torch/nn/module.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ddprun::worker {

class kept_state {
 public:
  void add(const std::string& name, at::Tensor& tensor);
  void add(const std::string& name, torch::nn::Module& module);
  void add(const std::string& name, exponential_moving_average& average);
  void add(const std::string& name, torch::optim::LRScheduler& scheduler);
  void add(const std::string& name, std::function<std::string()> to_text,
           std::function<void(const std::string&)> from_text);

  struct kept_tensor {
    std::string name;  // in the snapshot
    at::Tensor tensor;
    at::Tensor* variable = nullptr;  // the program's variable, which may later be another tensor
    bool is_average = false;
    bool is_buffer = false;  // of a module or an average: differs between ranks
  };
  std::vector<kept_tensor> tensors() const;
  // The texts by their names in the snapshot. put_back() sets those that have changed since.
  text_map texts() const;
  void put_back(const text_map& texts) const;

  // Tensors are not copied. Those of averages, which only update() changes, may be copied late.
  void add_to(snapshot_part& part) const;
  // Compares everything before it changes anything.
  void load(const snapshot_part& part, const std::string& path) const;

 private:
  struct text {
    std::function<std::string()> get;
    std::function<void(const std::string&)> set;
  };
  std::string take(const std::string& name);

  std::map<std::string, text> texts_;
  std::map<std::string, at::Tensor*> tensors_;
  std::map<std::string, torch::nn::Module*> modules_;
  std::map<std::string, exponential_moving_average*> averages_;
};

}  // namespace ddprun::worker
