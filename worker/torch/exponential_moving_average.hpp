// An exponential moving average (EMA) of a model's weights, to evaluate it with:
//
//   average = decay * average + (1 - decay) * weight      after each step of the optimizer
//
// It is Python's AveragedModel with get_ema_multi_avg_fn(decay) (torch.optim.swa_utils): the first
// update copies the weights. Buffers are the model's own, unless `buffers` says that those of
// floating point (BatchNorm's averages) are averaged too; counts are copied then.
//
//   exponential_moving_average average(*model, {.decay = 0.999});
//   loop.keep("average", average);  // saved and resumed; updated after each step
//   loop.on_epoch_end([&](const epoch_end&) {
//     const auto swapped = average.swap_in();
//     ... evaluate the model ...
//   });
//
// Thread rule: that of the model. Ownership: the model must outlive it, and have its weights where
// they are to stay (after to(device), and after distributed_data_parallel has made them equal).
// Errors: std::invalid_argument: a decay that is not from 0 to 1; std::logic_error: an update while
// the average is swapped in.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace ddprun::worker {

struct exponential_moving_average_options {
  double decay = 0.999;
  bool buffers = false;
};

class exponential_moving_average {
 public:
  // As long as it lives, the model has the averages, and the average the model's weights: what
  // trains, or saves a snapshot, comes when it has ended.
  class swap_scope {
   public:
    explicit swap_scope(exponential_moving_average& average) : average_(average) {
      average_.swap();
    }
    // Ends the process where it cannot swap back: nothing may go on with these weights.
    ~swap_scope() { average_.swap(); }
    swap_scope(const swap_scope&) = delete;
    swap_scope& operator=(const swap_scope&) = delete;

   private:
    exponential_moving_average& average_;
  };

  // One tensor of the model and its average.
  struct averaged {
    std::string name;
    at::Tensor of_model;
    at::Tensor average;
    bool is_buffer = false;
  };

  explicit exponential_moving_average(const torch::nn::Module& model,
                                      const exponential_moving_average_options& options = {});

  void update();
  [[nodiscard]] swap_scope swap_in() { return swap_scope(*this); }

  std::uint64_t updates() const { return updates_; }
  void set_updates(std::uint64_t count) { updates_ = count; }  // of a snapshot
  // In the order of the model's, each that modules share once.
  const std::vector<averaged>& tensors() const { return tensors_; }

 private:
  void swap();

  double decay_;
  std::vector<averaged> tensors_;
  std::uint64_t updates_ = 0;
  bool is_swapped_ = false;
};

}  // namespace ddprun::worker
