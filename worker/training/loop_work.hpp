// What a training loop runs, as the loop sees it: a model and its optimizer behind a few questions,
// so that the loop itself needs no LibTorch. worker/torch/training_loop is the one for LibTorch.
//
// Errors: a collective's are process_group_error; others go through.
#pragma once

#include "worker/metrics/meter.hpp"
#include "worker/snapshot/snapshot_state.hpp"
#include "worker/training/decisions.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::worker {

// The indices of this rank's samples in one pass.
using sample_span = std::span<const std::size_t>;

using named_meters = std::vector<std::pair<std::string, meter>>;

struct step_end {
  std::uint64_t epoch = 1;
  std::uint64_t step = 0;           // done, over all epochs
  std::uint64_t step_of_epoch = 0;  // done since the epoch began, or was resumed
  std::uint64_t steps_of_epoch = 0;
  std::span<const sample_span> passes;  // that it was made of
};

struct epoch_end {
  std::uint64_t epoch = 1;
  std::uint64_t step = 0;   // done, over all epochs
  std::size_t samples = 0;  // of this rank, since the epoch began, or was resumed
  double seconds = 0;       // since then
  named_meters own, all;    // of this rank, and averaged over all ranks; in the order of first use
};

class loop_work {
 public:
  virtual ~loop_work() = default;

  // `is_copied_late`: what may be late of it is copied while training goes on. No other such copy
  // is under way then; one may be where it is false.
  virtual snapshot_state view(bool is_copied_late) = 0;
  // What may be late of the last view that was copied late, and is not what it was then; empty: all
  // is. It is asked when that is copied, and before the step changes it; again only where it threw.
  virtual std::string changed_since_view() { return ""; }
  virtual void load(const resumed_snapshot& from) = 0;
  // Before the first step. What is copied late of a view must not be changed before a call of
  // `wait_until_copied` has returned: step() calls it as late as it can. It asks
  // changed_since_view(), and what is said there is a std::logic_error.
  virtual void set_wait_until_copied(std::function<void()> /*wait_until_copied*/) {}
  // Whether ranks have this tensor of what is replicated alike, to the bit, after each step.
  virtual bool is_alike(std::string_view tensor) = 0;

  // One pass for nothing, before the first step of the process.
  virtual void warm_up(sample_span pass) = 0;
  // `passes` are all that are to come in it, in this order.
  virtual void begin_epoch(std::uint64_t epoch, std::uint64_t steps,
                           std::span<const sample_span> passes) = 0;
  // All passes of one step, `step` of all epochs, from 1.
  virtual void step(std::uint64_t epoch, std::uint64_t step,
                    std::span<const sample_span> passes) = 0;
  // The step() or end_epoch() that was called last does not count: what view() shows is to be what
  // it was before. Says what has changed and cannot be put back; empty: nothing.
  virtual std::string put_back() = 0;
  // Before the first step. Whether this process was told to end (SIGTERM), and not in an ordinary
  // stop, as far as is known: of a rank that is lost on a GPU there may be no other sign. Another
  // thread may call it until step() has returned.
  virtual void set_stop_has_come(std::function<bool()> /*stop_has_come*/) {}
  // Before the first step. Collectives on a GPU may be aborted only once this has been called with
  // the step, counted over all epochs, that the abort may spoil on other ranks, and has returned an
  // empty text; else it is why they do not know of it. Another thread may call it, also when the
  // loop is gone. Not called: no other rank needs to know.
  virtual void set_say_abort(std::function<std::string(std::uint64_t step)> /*say_abort*/) {}
  // After a collective has failed: ranks that wait for this one in another one hear that it does
  // not come. None is called any more.
  virtual void let_go() = 0;
  // After let_go(): what a GPU waits for in vain is ended, and what was given to it is done. Says
  // why the state of the last finished step is not whole; empty: it is, once put_back() has put
  // back what came after it. Takes about as long as `within` at most.
  virtual std::string end_device_work(std::chrono::milliseconds /*within*/) { return ""; }
  // The program's own. end_step() comes once the step counts; end_epoch() counts once all ranks
  // have made it.
  virtual void end_step(const step_end& done) = 0;
  virtual void end_epoch(const epoch_end& done) = 0;

  // What was reported since the last call, of this rank.
  virtual named_meters take_meters() = 0;
  // Collectives.
  virtual void average(named_meters& meters) = 0;
  virtual void ask(const loop_word& own) = 0;
  virtual loop_word answer() = 0;
  // How many bytes go to all ranks; none: there is no way for them.
  virtual byte_broadcast broadcast() { return {}; }
  // True on all ranks if one says so; waits for all.
  virtual bool any(bool here) = 0;
};

}  // namespace ddprun::worker
