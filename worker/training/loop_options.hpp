// How a training loop goes, and what of it is kept.
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

// What a forward pass computes in: torch/mixed_precision.hpp.
enum class compute_type { full, bf16, fp16 };

struct training_loop_options {
  std::size_t samples = 0;     // of the data set
  std::size_t batch_size = 1;  // samples of each rank in a pass
  std::uint64_t epochs = 1;
  std::size_t passes_per_step = 1;  // forward and backward, for one step of the optimizer
  bool shuffle = true;
  bool drop_last = false;  // samples that do not come out even over the ranks
  std::uint64_t seed = 0;  // of the shuffle: the same on all ranks

  // Where snapshots are kept, the same for all nodes; empty: none are, and nothing is resumed.
  std::string folder;
  save_times save;
  std::size_t keep = 3;       // newest snapshots
  std::uint32_t writers = 0;  // of a snapshot: snapshots_options
  // Whether a snapshot is passed over, with a message, and the one before it taken, when this run
  // has failed twice within so many steps of going on from it.
  bool distrust = true;
  std::uint64_t trusted_after_steps = 10;
  // What only the optimizer's step changes is copied beside the next forward and backward passes.
  // False: before they begin, for a loss that changes parameters itself.
  bool copies_late = true;
  // How long the ranks that are left may take to save the last finished step when others have
  // died; 0: they do not. ddprun lets a worker that writes go on for up to 30 s.
  std::chrono::milliseconds emergency_grace = std::chrono::seconds(20);
  // Whether another rank has been told to stop is asked after each so many steps, in the
  // background: the answer counts a step later.
  std::uint64_t ask_interval = 1;
  const stop_request* stop = nullptr;  // none: the loop makes its own

  std::string metrics;  // a file for the numbers of each epoch (metrics_file.hpp); empty: none
  bool shows_progress = true;  // of each epoch, to standard error
  // What rank 0 says of resuming and saving. Default: a line of standard output.
  std::function<void(std::string_view line)> tell;
  message_handler on_message = write_to_stderr;  // the snapshots'
  file_system* files = &posix_file_system();
  std::function<time_point()> now;  // default: the monotonic clock

  // What follows is that of a model with an optimizer (torch/training_loop).
  // Gradients are scaled down where their norm over all parameters, averaged over the ranks, is
  // greater; 0: they are not.
  double clip_norm = 0;
  // The learning rate of all parameter groups for a step, counted from 1 over all epochs; none: the
  // program's affair.
  std::function<double(std::uint64_t step)> learning_rate;
  // What the forward pass computes in. With fp16 the loss is scaled, and a step whose gradients are
  // not finite is left out; the scale is kept in snapshots.
  compute_type computes_in = compute_type::full;
  // One pass for nothing before the first step, which fixes the order in which gradients are
  // summed: without it a resumed run rounds otherwise.
  bool warms_up = true;
};

}  // namespace ddprun::worker
