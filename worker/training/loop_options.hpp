// The options of a training loop.
#pragma once

#include "worker/snapshot/snapshots.hpp"
#include "worker/stop_request.hpp"
#include "worker/training/decisions.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun::worker {

// The type in which a forward pass computes: torch/mixed_precision.hpp.
enum class compute_type { full, bf16, fp16 };

struct training_loop_options {
  std::size_t samples = 0;     // in the data set
  std::size_t batch_size = 1;  // samples of each rank in a pass
  std::uint64_t epochs = 1;
  std::size_t passes_per_step = 1;  // forward and backward passes for one step of the optimizer
  bool shuffle = true;
  bool drop_last = false;  // drop samples that do not divide evenly among the ranks
  std::uint64_t seed = 0;  // of the shuffle; the same on all ranks

  // The folder for snapshots, the same on all nodes. If empty, nothing is saved or resumed.
  std::string folder;
  save_times save;
  std::size_t keep = 3;        // the number of newest snapshots to keep
  std::size_t vault_keep = 2;  // the same in the vault, if save.vault_steps is set
  std::uint32_t writers = 0;   // see snapshots_options
  // Skips a snapshot, with a message, and takes the one before it, if this run has failed twice
  // within this many steps of resuming from it.
  bool distrust = true;
  std::uint64_t trusted_after_steps = 10;
  // Copies what only the optimizer's step changes beside the next forward and backward passes. Set
  // it to false for a loss that changes parameters itself: then everything is copied before they
  // begin.
  bool copies_late = true;
  // How long survivors may take to save the last finished step when other ranks have died; 0: they
  // do not save. ddprun lets a worker that is writing continue for up to 30 s.
  std::chrono::milliseconds emergency_grace = std::chrono::seconds(20);
  // The number of steps between two questions, asked in the background, whether another rank was
  // told to stop. The answer takes effect one step later.
  std::uint64_t ask_interval = 1;
  const stop_request* stop = nullptr;  // none: the loop creates its own

  std::string metrics;         // a file for the numbers of each epoch (metrics_file.hpp)
  bool shows_progress = true;  // for each epoch, on standard error
  // Prints what rank 0 reports about resuming and saving. By default a line on standard output.
  std::function<void(std::string_view line)> tell;
  message_handler on_message = write_to_stderr;  // for messages of the snapshots
  file_system* files = &posix_file_system();
  std::function<time_point()> now;  // default: the monotonic clock

  // The options below apply to a model with an optimizer (torch/training_loop).
  //
  // Gradients, averaged over the ranks, are scaled down if their norm over all parameters exceeds
  // this; 0 turns that off.
  double clip_norm = 0;
  // The learning rate of all parameter groups for a step, counted from 1 over all epochs. If empty,
  // the program sets it.
  std::function<double(std::uint64_t step)> learning_rate;
  // The type in which the forward pass computes. With fp16 the loss is scaled, and a step whose
  // gradients are not finite is skipped; snapshots contain the scale.
  compute_type computes_in = compute_type::full;
  // Runs one discarded pass before the first step, which fixes the order in which gradients are
  // summed. Without it a resumed run would round differently.
  bool warms_up = true;
};

}  // namespace ddprun::worker
