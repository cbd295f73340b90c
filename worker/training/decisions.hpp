// Decides what a training loop does after a step: whether it saves, and whether it stops. All ranks
// must decide the same, but they know different things: a signal reaches only one of them, and
// their clocks differ. So each says what it knows, the ranks combine that, and each decides by the
// combination, the step and the epoch, which are the same on all ranks.
//
// Only rank 0's clock counts.
//
// Pure. Thread rule: one thread.
#pragma once

#include "rendezvous/base/time.hpp"

#include <chrono>
#include <cstdint>

namespace ddprun::worker {

// When to save, in addition to the end of training and a stop. 0 turns a criterion off.
struct save_times {
  std::uint64_t steps = 0;                // every so many steps, counted over all epochs
  std::uint64_t epochs = 1;               // every so many epochs
  std::chrono::milliseconds interval{0};  // after so much time, by rank 0's clock
  std::uint64_t vault_steps = 0;          // every so many steps into the vault, if there is one
};

// What one rank knows, or all ranks combined.
struct loop_word {
  bool stop_has_come = false;
  bool save_is_due = false;
  bool operator==(const loop_word&) const = default;
};

// The position of a loop after a step.
struct loop_moment {
  std::uint64_t step = 0;   // steps done, over all epochs
  std::uint64_t epoch = 1;  // the epoch of the step, from 1
  bool ends_epoch = false;
  bool ends_all = false;  // the last epoch
};

struct loop_decision {
  bool saves = false;  // into the folder
  bool stops = false;
  bool saves_in_vault = false;  // and not into the folder
  bool operator==(const loop_decision&) const = default;
};

class loop_decisions {
 public:
  // `ask_interval` is the number of steps between two questions to all ranks; std::invalid_argument
  // if it is less than 1.
  loop_decisions(const save_times& when, std::uint64_t ask_interval, std::uint32_t rank,
                 time_point now);

  // What this rank contributes.
  loop_word word(bool stop_has_come, time_point now) const;
  // True if the ranks combine their words after this step. For the last step of an epoch they do so
  // after the end of the epoch instead.
  bool asks(const loop_moment& at) const;
  // Decides by the combined words: within an epoch, or with `ends_epoch` after its end.
  loop_decision decide(const loop_moment& at, const loop_word& of_all, time_point now);

 private:
  save_times when_;
  std::uint64_t ask_interval_;
  bool has_the_clock_;
  time_point saved_at_;  // when the last save, or the loop, began
};

}  // namespace ddprun::worker
