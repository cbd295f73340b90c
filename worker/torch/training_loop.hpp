// A training loop is what every training program repeats: it goes on from the newest snapshot, runs
// epochs and steps, saves when it is time, on SIGTERM, and what was finished when another rank has
// died, shows progress, averages meters over the ranks, and ends with the right exit code.
//
//   distributed_data_parallel parallel(group, *model);
//   torch::optim::SGD optimizer(model->parameters(), 0.1);
//   training_loop loop(parallel, optimizer, {.samples = 640, .epochs = 10, .folder = "snapshots"});
//   loop.run([&](training_batch& batch) {
//     const auto picked = batch.tensor();
//     return torch::mse_loss(parallel.forward(model, inputs.index_select(0, picked)),
//                            targets.index_select(0, picked));
//   });
//   group.close();
//   return loop.status();
//
// The program brings the loss of a batch; the loop zeroes the gradients, calls backward, clips,
// steps the optimizer, and what follows it. It is made of parts that can be used alone: sampler,
// snapshots, training_state, stop_request, meters, progress; the loop itself is loop_driver.
//
// What is kept: model, optimizer and generators (training_state), the sampler's place, and what
// keep() names. All ranks must have that alike, but for buffers of modules. A snapshot that lacks
// it, or has it in another form, is an error.
//
// A run that was disturbed ends with the same bits as one that was not, where the loss depends on
// nothing but the batch, the model and the generators. An emergency snapshot (loop_driver.hpp) is
// without the generators: a model with dropout goes on with other ones. What a loss or
// on_epoch_end() had changed of what is kept, when a rank was lost, is put back
// (unfinished_changes.hpp); there is no such snapshot where the ranks that are left have it
// differently, or where a loss has changed parameters or a kept tensor of more than 1 MiB. The pass
// for nothing (warms_up) runs the loss as well, and what it changes of what is kept is put back.
//
// A snapshot costs the copy of what a forward pass changes (buffers, generators, what keep()
// names). Parameters, the optimizer's state and averages are copied beside the next step's forward
// and backward passes, and the optimizer waits until they are. A loss that changes one of them
// itself needs copies_late = false; without that it is a std::logic_error, and there is no such
// snapshot.
//
// On GPUs a dead rank is no error of a collective: NCCL's watchdog ends the process, and the job
// goes on from the last whole snapshot.
//
// Thread rule: one thread; all ranks in step. Ownership: what is handed in must outlive the loop.
// Errors: as loop_driver; training_state_error.
#pragma once

#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/exponential_moving_average.hpp"
#include "worker/training/data_loader.hpp"
#include "worker/training/loop_driver.hpp"

#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ddprun::worker {

// What one pass is about.
class training_batch {
 public:
  using report_handler = std::function<void(std::string_view name, const at::Tensor& value)>;
  training_batch(std::uint64_t epoch, std::uint64_t step, std::span<const std::size_t> indices,
                 const report_handler& report)
      : epoch_(epoch), step_(step), indices_(indices), report_(report) {}

  std::uint64_t epoch() const { return epoch_; }  // from 1
  std::uint64_t step() const { return step_; }    // that it is part of: from 1, over all epochs
  std::span<const std::size_t> indices() const { return indices_; }  // of this rank's samples
  std::size_t size() const { return indices_.size(); }
  // The indices, for index_select.
  at::Tensor tensor() const;
  // An average over the samples, one value: of its batch. It stays where it is until the end of
  // the epoch, so that a GPU need not be waited for. "loss" is reported by the loop.
  void report(std::string_view name, const at::Tensor& value) const { report_(name, value); }

 private:
  std::uint64_t epoch_;
  std::uint64_t step_;
  std::span<const std::size_t> indices_;
  const report_handler& report_;
};

class training_loop {
 public:
  // The loss of one pass, which ends in a call of parallel.forward().
  using loss_function = std::function<at::Tensor(training_batch& batch)>;

  training_loop(distributed_data_parallel& parallel, torch::optim::Optimizer& optimizer,
                training_loop_options options);
  ~training_loop();
  training_loop(const training_loop&) = delete;
  training_loop& operator=(const training_loop&) = delete;

  // What snapshots keep besides, each under a name of its own; before run(). A `to_text` is called
  // before each step, too.
  void keep(const std::string& name, at::Tensor& tensor);
  void keep(const std::string& name, torch::nn::Module& module);
  // Updated after each step that the optimizer makes, before on_update.
  void keep(const std::string& name, exponential_moving_average& average);
  void keep(const std::string& name, torch::optim::LRScheduler& scheduler);
  void keep(const std::string& name, std::function<std::string()> to_text,
            std::function<void(const std::string&)> from_text);

  // Has this loader (data_loader.hpp) load the batches of each epoch ahead, from where it goes on;
  // before run().
  void load_ahead(batch_queue& loader);

  // The program's own; before run(). Each is called by all ranks, and may use collectives.
  // on_epoch_end() counts once for each epoch; on_epoch_begin() is called again where a run goes on
  // in the middle of one.
  void on_epoch_begin(std::function<void(std::uint64_t epoch, std::uint64_t steps)> work);
  // After the optimizer's step, as a part of it: what keep() names is changed here. Where it fails
  // for want of a rank there is no emergency snapshot.
  void on_update(std::function<void(std::uint64_t step)> work);
  void on_step(std::function<void(const step_end& done)> work);
  void on_epoch_end(std::function<void(const epoch_end& done)> work);

  // Called once.
  void run(const loss_function& loss);

  bool is_done() const;  // all epochs are
  int status() const;    // for exit(): see loop_driver
  // Of the last step, over all parameters, before they were clipped; 0 without clip_norm.
  double gradient_norm() const;

 private:
  class work;
  std::unique_ptr<work> work_;
  std::unique_ptr<loop_driver> driver_;
};

}  // namespace ddprun::worker
