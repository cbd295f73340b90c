// The loop driver is a training loop without what it trains: it resumes, goes through epochs and
// steps from where the snapshot was, saves when it is time, hears of a stop, saves what the ranks
// that are left have finished when others die, shows progress, says to the launcher where it is
// (report_step), and ends in order.
//
// The order of an epoch: begin_epoch(), then step() and end_step() for each step, then the meters
// of all ranks, then end_epoch(), then the snapshot. A step counts as finished when step() has
// returned; an emergency snapshot holds the last finished one, and nothing that a step after it, or
// an end_epoch(), has changed. A rank that is lost in end_step() or end_epoch() costs no step:
// these are run again for what comes after the resume, end_epoch() for the epoch that was complete,
// with no sample in it.
//
// Thread rule: one thread; all ranks in step. Ownership: `work` is another's.
// Errors: std::runtime_error, with one line for a person: the folder cannot be used, a snapshot is
// of another program, the last snapshot cannot be saved; process_group_error: a rank was lost; what
// `work` throws.
#pragma once

#include "worker/distributed_sampler.hpp"
#include "worker/environment.hpp"
#include "worker/metrics/metrics_file.hpp"
#include "worker/metrics/progress.hpp"
#include "worker/process_group_error.hpp"
#include "worker/snapshot/snapshots.hpp"
#include "worker/stop_request.hpp"
#include "worker/training/loop_options.hpp"
#include "worker/training/loop_work.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::worker {

// Where training is: epochs count from 1, and steps over all of them.
struct training_place {
  std::uint64_t epoch = 1;
  std::uint64_t step = 0;
  std::size_t used = 0;  // of the epoch's samples, by all ranks together
};

class loop_driver {
 public:
  loop_driver(const environment& here, training_loop_options options, loop_work& work);

  // Called once. On return all epochs are done, or a stop was asked for; all is saved.
  void run();

  bool is_done() const { return is_done_; }
  // For exit(): 0, or stopped_status where SIGTERM has stopped it.
  int status() const;
  const training_place& place() const { return place_; }

 private:
  void resume();
  void train();
  // False: it stops.
  bool run_epoch(distributed_sampler& sampler);
  bool after_step(const loop_moment& at);
  void end_epoch(epoch_end& done, progress& shown);
  bool after_epoch();
  void write_metrics(const epoch_end& done, double samples_per_second);
  void open_snapshots();
  void open_metrics();
  std::string text_of_place() const;
  void save(const training_place& next, const loop_decision& how);
  void begin_save(const training_place& next, snapshot_place to);
  class copy_ends_first;
  void wait_until_copied();
  void wait_together();
  void save_emergency();
  void try_emergency();
  snapshot_state state_at(const training_place& next, bool is_copied_late);
  loop_word heard();
  void check(error_code error);
  void tell_saved();
  void tell(const std::string& line) const;
  bool tells() const { return here_.rank == 0; }

  environment here_;
  training_loop_options options_;
  loop_work& work_;
  std::optional<stop_request> own_stop_;
  const stop_request* stop_;
  loop_decisions decisions_;
  std::unique_ptr<snapshots> snapshots_;  // none: nothing is kept
  std::optional<metrics_file> metrics_;   // rank 0's, where they are asked for
  training_place place_;                  // behind the last finished step
  std::uint64_t first_step_ = 0;          // done before this process
  std::uint64_t epochs_saved_ = 0;        // with the snapshot under way, or the last one
  std::optional<std::string> told_;       // the last one that was
  bool is_warm_ = false;
  bool is_asking_ = false;
  bool is_unfinished_ = false;  // a step, or an epoch's end
  bool is_done_ = false;
};

}  // namespace ddprun::worker
