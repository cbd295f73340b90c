// A worker_life is the state of one worker in a round, from its turn to start until no process of
// its group runs any more. It is the part of worker_group_machine that concerns a single worker.
//
//   waiting ---> starting ---> running ---> draining ---> dying ---> done
//    ^  |           |             |                                   ^
//    |  |           |             +----- left: it lives on -----------+
//    |  +-----------|----- never started, or could not be ------------+
//    +--------------+----- could not be started -----------------------+
//     short of something
#pragma once

#include "rendezvous/base/error.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace ddprun::launcher::workers {

using time_point = std::chrono::steady_clock::time_point;
using duration = std::chrono::steady_clock::duration;

enum class worker_phase {
  waiting,   // for its turn
  starting,  // forked, or about to be; its program is not executed yet
  running,
  draining,  // has ended; its pipes, and after a success its children, have a grace
  dying,     // its group got SIGKILL and its leader is reaped; others may still run
  done,
};

enum class output_pipe { output, errors };

// The grace of processes that a successful worker has left behind.
struct grace {
  std::optional<time_point> since;   // when it began; set when they are first seen
  std::optional<time_point> begins;  // when it begins, if not when they are first seen
  bool is_looked_for = false;        // at least once
  bool is_told = false;              // they were reported
  bool is_over = false;              // they are gone, or the grace is over
};

class worker_life {
 public:
  worker_phase phase() const { return phase_; }
  bool has_process() const {
    return phase_ != worker_phase::waiting && phase_ != worker_phase::done;
  }
  // Its leader is not reaped yet: the group's ID is ours, and signals are safe.
  bool may_be_signalled() const {
    return phase_ >= worker_phase::starting && phase_ <= worker_phase::draining;
  }

  void begin() {
    move(worker_phase::waiting, worker_phase::starting);
    open_ = {true, true};
  }
  void execute() { move(worker_phase::starting, worker_phase::running); }
  void exit(bool success, time_point now, duration limit) {
    move(worker_phase::running, worker_phase::draining);
    success_ = success;
    ended_at_ = now;
    drain_until_ = now + limit;
  }
  // It leaves the round, and survives.
  void leave() {
    move(worker_phase::running, worker_phase::done);
    open_ = {false, false};
  }
  // Its group was killed, and its leader reaped.
  void die() {
    move(worker_phase::draining, worker_phase::dying);
    open_ = {false, false};
    drain_until_.reset();
  }
  void end() { move(worker_phase::dying, worker_phase::done); }
  // Its leader was reaped, and the rest of its group is left alone.
  void leave_children() {
    die();
    end();
  }

  // It could not be started; nothing of it is left.
  void wait_again() {
    DDPRUN_ASSERT(is_unstarted());
    *this = {};
  }
  void give_up() {
    DDPRUN_ASSERT(is_unstarted());
    *this = {};
    phase_ = worker_phase::done;
  }

  void close(output_pipe which) { open_[static_cast<std::size_t>(which)] = false; }
  bool is_drained() const { return !open_[0] && !open_[1]; }

  // Only while it is draining. drain_until is none while an answer about it is open.
  bool succeeded() const { return success_; }
  std::optional<time_point> drain_until() const { return drain_until_; }
  void drain_until(std::optional<time_point> when) {
    DDPRUN_ASSERT(phase_ == worker_phase::draining);
    drain_until_ = when;
  }
  time_point ended_at() const { return ended_at_; }
  grace& children() { return children_; }
  const grace& children() const { return children_; }

 private:
  bool is_unstarted() const {
    return phase_ == worker_phase::waiting || phase_ == worker_phase::starting;
  }
  void move(worker_phase from, worker_phase to) {
    DDPRUN_ASSERT(phase_ == from);
    phase_ = to;
  }

  worker_phase phase_ = worker_phase::waiting;
  std::array<bool, 2> open_ = {false, false};
  bool success_ = false;
  time_point ended_at_{};
  std::optional<time_point> drain_until_;
  grace children_;
};

// The pause between two looks at what is dying.
duration look_pause(duration so_far);

// A worker's index in the list of commands; it never changes.
using place = std::size_t;

// The workers of a round, with the number of workers in each phase.
class worker_lives {
 public:
  explicit worker_lives(std::size_t workers) : lives_(workers) {
    DDPRUN_ASSERT(workers > 0);
    counted(worker_phase::waiting) = workers;
  }

  std::size_t size() const { return lives_.size(); }
  const worker_life& operator[](place worker) const { return lives_[worker]; }

  // Calls one of the functions above.
  template <typename Verb>
  void change(place worker, Verb verb) {
    DDPRUN_ASSERT(worker < lives_.size());
    worker_life& one = lives_[worker];
    --counted(one.phase());
    std::invoke(verb, one);
    ++counted(one.phase());
  }

  // The number of workers from the first to the last of consecutive phases.
  std::size_t count(worker_phase first, worker_phase last) const {
    std::size_t sum = 0;
    for (auto phase = static_cast<std::size_t>(first); phase <= static_cast<std::size_t>(last);
         ++phase) {
      sum += counts_[phase];
    }
    return sum;
  }
  std::size_t count(worker_phase only) const { return count(only, only); }
  bool are_done() const { return count(worker_phase::done) == size(); }

 private:
  std::size_t& counted(worker_phase phase) { return counts_[static_cast<std::size_t>(phase)]; }

  std::vector<worker_life> lives_;
  std::array<std::size_t, 6> counts_{};
};

}  // namespace ddprun::launcher::workers
