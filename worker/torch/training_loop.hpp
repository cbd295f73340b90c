// A training loop does what every training program repeats: it resumes from the newest snapshot,
// runs epochs and steps, saves at intervals, on SIGTERM and after another rank has died, shows
// progress, averages meters over the ranks, and ends with the right exit code.
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
// The program provides the loss of a batch; the loop zeroes the gradients, calls backward, clips,
// steps the optimizer, and does the rest. It consists of parts that can be used alone: sampler,
// snapshots, training_state, stop_request, meters, progress; the loop itself is loop_driver.
//
// Snapshots contain model, optimizer and generators (training_state), the sampler's position, and
// what keep() names. Except for buffers of modules, the latter must be equal on all ranks. A
// snapshot that lacks it, or has it in another form, is an error.
//
// An interrupted run ends with the same bits as an uninterrupted one if the loss depends only on
// the batch, the model and the generators. An emergency snapshot (loop_driver.hpp) does not contain
// the generators, so a model with dropout continues with other ones. If a rank is lost, what a loss
// or on_epoch_end() has changed of the saved state is restored (unfinished_changes.hpp), but not
// weights and averages that an unfinished on_epoch_end() has changed: they are not looked at, and
// are saved as they are. There is no emergency snapshot if the survivors' states differ, or if a
// loss has changed parameters or a kept tensor of more than 1 MiB. The discarded pass (warms_up)
// runs the loss too, and its changes of the saved state are restored as well.
//
// Training waits only for the copy of what a forward pass changes (buffers, generators, what keep()
// names). Parameters, the optimizer's state and averages are copied during the next step's forward
// and backward passes, and the optimizer waits for that. A loss that changes one of them itself
// needs copies_late = false; otherwise it causes a std::logic_error, and that snapshot is not made.
//
// On GPUs a dead rank is not an error of a collective: NCCL's watchdog ends the process, and the
// job resumes from the last complete snapshot. In a group without it (`watchdog` in
// process_group.hpp) the loop waits before each step of the optimizer until the GPU has reduced the
// gradients; if a rank is lost before that, run() throws process_group_error, and the ranks that
// are left save the last finished step that no abort can have spoilt (device_watch.hpp).
// on_update() must not use collectives on the GPU then, and on_epoch_end() must not change weights
// by them: an abort leaves them half done. With the watchdog on, the last step is saved only if the
// GPU has done all of its work. None of this has been tried on a GPU yet, only with a fake in its
// place.
//
// Thread rule: one thread; all ranks make the same calls. Ownership: the arguments must outlive the
// loop. Errors: as for loop_driver; training_state_error.
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

// One pass.
class training_batch {
 public:
  using report_handler = std::function<void(std::string_view name, const at::Tensor& value)>;
  training_batch(std::uint64_t epoch, std::uint64_t step, std::span<const std::size_t> indices,
                 const report_handler& report)
      : epoch_(epoch), step_(step), indices_(indices), report_(report) {}

  std::uint64_t epoch() const { return epoch_; }  // from 1
  std::uint64_t step() const { return step_; }    // the step of the pass: from 1, over all epochs
  std::span<const std::size_t> indices() const { return indices_; }  // of this rank's samples
  std::size_t size() const { return indices_.size(); }
  // The indices, for index_select.
  at::Tensor tensor() const;
  // Reports an average over the samples of the batch, as a tensor of one value. It stays on its
  // device until the end of the epoch, so that the loop need not wait for a GPU. The loop reports
  // "loss".
  void report(std::string_view name, const at::Tensor& value) const { report_(name, value); }

 private:
  std::uint64_t epoch_;
  std::uint64_t step_;
  std::span<const std::size_t> indices_;
  const report_handler& report_;
};

class training_loop {
 public:
  // Returns the loss of one pass, after calling parallel.forward().
  using loss_function = std::function<at::Tensor(training_batch& batch)>;

  training_loop(distributed_data_parallel& parallel, torch::optim::Optimizer& optimizer,
                training_loop_options options);
  ~training_loop();
  training_loop(const training_loop&) = delete;
  training_loop& operator=(const training_loop&) = delete;

  // Adds to the content of snapshots, each under a unique name. Call it before run(). A `to_text`
  // is also called before each step.
  void keep(const std::string& name, at::Tensor& tensor);
  void keep(const std::string& name, torch::nn::Module& module);
  // The average is updated after each step of the optimizer, before on_update.
  void keep(const std::string& name, exponential_moving_average& average);
  void keep(const std::string& name, torch::optim::LRScheduler& scheduler);
  void keep(const std::string& name, std::function<std::string()> to_text,
            std::function<void(const std::string&)> from_text);

  // Lets this loader (data_loader.hpp) load the batches of each epoch ahead, from the position of
  // the resume. Call it before run().
  void load_ahead(batch_queue& loader);

  // Callbacks of the program; set them before run(). All ranks call each of them, and they may use
  // collectives. on_epoch_end() counts once for each epoch; on_epoch_begin() is called again if a
  // run resumes within an epoch.
  void on_epoch_begin(std::function<void(std::uint64_t epoch, std::uint64_t steps)> work);
  // Called after the optimizer's step, as a part of it: change what keep() names here. If it fails
  // because of a lost rank, there is no emergency snapshot.
  void on_update(std::function<void(std::uint64_t step)> work);
  void on_step(std::function<void(const step_end& done)> work);
  void on_epoch_end(std::function<void(const epoch_end& done)> work);

  // Call it once.
  void run(const loss_function& loss);

  bool is_done() const;  // all epochs are done
  int status() const;    // for exit(): see loop_driver
  // The norm of the last step's gradients over all parameters before clipping; 0 without clip_norm.
  double gradient_norm() const;

 private:
  class work;
  std::unique_ptr<work> work_;
  std::unique_ptr<loop_driver> driver_;
};

}  // namespace ddprun::worker
