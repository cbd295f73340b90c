// What a training loop does after a step: does it save, does it stop? All ranks must come to the
// same, and know different things: a signal has come to one of them, and their clocks differ. So
// each says what it knows, they put that together, and each decides by the sum, the number of the
// step and the epoch, which are the same everywhere.
//
// Rank 0's clock is the one that counts.
//
// Pure. Thread rule: one thread.
#pragma once

#include "rendezvous/base/time.hpp"

#include <chrono>
#include <cstdint>

namespace ddprun::worker {

// When a snapshot is saved, besides the end of all and a stop; 0: not by this.
struct save_times {
  std::uint64_t steps = 0;                // after each so many, counted over all epochs
  std::uint64_t epochs = 1;               // after each so many
  std::chrono::milliseconds interval{0};  // after so much time, by rank 0's clock
};

// What one rank knows, or one of all.
struct loop_word {
  bool stop_has_come = false;
  bool save_is_due = false;
  bool operator==(const loop_word&) const = default;
};

// Where a loop is, after a step.
struct loop_moment {
  std::uint64_t step = 0;   // how many are done, over all epochs
  std::uint64_t epoch = 1;  // the one that the step is of: from 1
  bool ends_epoch = false;
  bool ends_all = false;  // the last epoch
};

struct loop_decision {
  bool saves = false;
  bool stops = false;
  bool operator==(const loop_decision&) const = default;
};

class loop_decisions {
 public:
  // `ask_interval` steps lie between two questions to all ranks, at least 1: else
  // std::invalid_argument.
  loop_decisions(const save_times& when, std::uint64_t ask_interval, std::uint32_t rank,
                 time_point now);

  // What this rank has to tell.
  loop_word word(bool stop_has_come, time_point now) const;
  // Whether the ranks put their words together after this step. After the last one of an epoch
  // they do so when the epoch's end is through, too.
  bool asks(const loop_moment& at) const;
  // By what all ranks have said. Within an epoch, or, with `ends_epoch`, when its end is through.
  loop_decision decide(const loop_moment& at, const loop_word& of_all, time_point now);

 private:
  save_times when_;
  std::uint64_t ask_interval_;
  bool has_the_clock_;
  time_point saved_at_;  // or begun
};

}  // namespace ddprun::worker
