// An exponential moving average (EMA) of a model's weights, for evaluation:
//
//   average = decay * average + (1 - decay) * weight      after each step of the optimizer
//
// It matches Python's AveragedModel with get_ema_multi_avg_fn(decay) (torch.optim.swa_utils): the
// first update copies the weights. Buffers are those of the model, unless `buffers` is set: then
// floating-point buffers (BatchNorm's averages) are averaged too, and integer ones are copied.
//
//   exponential_moving_average average(*model, {.decay = 0.999});
//   loop.keep("average", average);  // saved and resumed; updated after each step
//   loop.on_epoch_end([&](const epoch_end&) {
//     const auto swapped = average.swap_in();
//     ... evaluate the model ...
//   });
//
// Thread rule: that of the model. Ownership: the model must outlive it. Create it after the weights
// are in their final place (after to(device), and after distributed_data_parallel has made them
// equal). Errors: std::invalid_argument if the decay is not from 0 to 1; std::logic_error for an
// update while the average is swapped in.
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
  // While an object of this class exists, the model holds the averages, and the average holds the
  // model's weights. Do not train or save a snapshot meanwhile.
  class swap_scope {
   public:
    explicit swap_scope(exponential_moving_average& average) : average_(average) {
      average_.swap();
    }
    // A failure to swap back ends the process: nothing may continue with these weights.
    ~swap_scope() { average_.swap(); }
    swap_scope(const swap_scope&) = delete;
    swap_scope& operator=(const swap_scope&) = delete;

   private:
    exponential_moving_average& average_;
  };

  // One tensor of the model, and its average.
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

  bool is_swapped_in() const { return is_swapped_; }

  std::uint64_t updates() const { return updates_; }
  void set_updates(std::uint64_t count) { updates_ = count; }  // for a snapshot that is loaded
  // In the model's order; a tensor that modules share is listed once.
  const std::vector<averaged>& tensors() const { return tensors_; }

 private:
  void swap();

  double decay_;
  std::vector<averaged> tensors_;
  std::uint64_t updates_ = 0;
  bool is_swapped_ = false;
};

}  // namespace ddprun::worker
