// A device watch ends the steps of a training loop in which a GPU waits for a rank that is lost
// (loss_rule.hpp), and knows whether the last finished step is whole.
//
// It ends them by aborting the collectives. That lets the kernels that wait behind them run, with
// whatever the aborted collective has left: so an optimizer may have its gradients only once
// wait_for() has returned, and the state of the GPU is whole only if the last finished step was
// done before the abort began.
//
// An aborted kernel also sends what it has to ranks on the same host that have not aborted yet, and
// whose step may end with it. So before the abort this rank says in which step it aborts: the one
// behind the last that its GPU has done whole. Steps before that one need nothing of this rank any
// more. What another rank has made of that step, or of a later one, does not count
// (snapshot/emergency.hpp). If it cannot be said, nothing is aborted.
//
//   watch.begin_step(step, collectives);
//   ... forward and backward passes ...
//   if (auto why = watch.wait_for(*after_the_backward_pass); !why.empty()) throw ...
//   ... the optimizer's step ...
//   watch.end_step(after_all_of_it);
//
// A thread looks for signs of a loss between begin_step() and the end of wait_for(), because the
// thread that trains may be blocked there: a GPU takes about a thousand kernels ahead. After a loss
// the watch is over, and wait_for() always returns the reason.
//
// All of this has been tried with fakes only, not on a GPU.
//
// Thread rule: one thread, the one that trains. The hooks, `collectives` and events are called on
// the watch's own thread, one at a time, and outlive the watch if an abort hangs: they must own
// what they use, except for `stop_has_come`, which is called in no abort.
// Errors: those of device_event go through wait_for(), unless an abort had begun. What
// `sign_of_loss` or `stop_has_come` throws is a sign of a loss. std::system_error if there are no
// threads.
#pragma once

#include "worker/training/loss_rule.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ddprun::worker {

// A place in the work that a device was given.
class device_event {
 public:
  virtual ~device_event() = default;
  // Whether the device has done all that it was given before. Any thread. Throws what the device
  // reports.
  virtual bool is_done() const = 0;
};

// Waits until then at most. True: it is done.
bool wait_until_done(const device_event& event, std::chrono::milliseconds within);

// The collectives of a device, from any thread.
struct device_collectives {
  std::function<std::string()> sign_of_loss;  // why one waits in vain; empty: nothing says so
  // Tells the other ranks that this one aborts in that step. Returns why that could not be said;
  // empty: it has been. None: no other rank needs to know.
  std::function<std::string(std::uint64_t step)> say_abort;
  std::function<void()> abort;  // all of them; may take long, or hang
};

class device_watch {
 public:
  // `wait_limit` and `stop_has_come` as for loss_rule.
  device_watch(duration wait_limit, std::function<bool()> stop_has_come);
  // Waits for an abort that has begun no longer than two seconds.
  ~device_watch();
  device_watch(const device_watch&) = delete;
  device_watch& operator=(const device_watch&) = delete;

  // Steps are counted over the whole training, alike on all ranks.
  void begin_step(std::uint64_t step, device_collectives collectives);
  // Waits until the device has done what comes before `gradients`. Empty: it has, and no abort had
  // begun. Else why a rank counts as lost.
  std::string wait_for(const device_event& gradients);
  // The step counts. The device has done it once it is done with what comes before `step`. Again
  // for the same step, if the device was given more that must be whole.
  void end_step(std::shared_ptr<const device_event> step);
  // The step has thrown: no sign is looked for, and `stop_has_come` not called, until the next.
  void leave_step();

  // Why a rank counts as lost; empty: none does.
  std::string lost() const;
  // A rank is lost, as another call has found: the collectives of the last begin_step() are
  // aborted, unless they are already. Empty: they have ended, and the last finished step was whole.
  // Else why not; also if they have not ended within that time.
  std::string end(std::chrono::milliseconds within);

 private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

}  // namespace ddprun::worker
