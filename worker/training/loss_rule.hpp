// Decides when a step waits in vain for another rank on its GPU. A collective of NCCL is done on
// the GPU, where the host's call has long returned: if its peer is gone, nothing tells the host so,
// and the GPU waits for ever.
//
// A rank is lost
//   when there is a sign of that: NCCL reports an error, or another rank says so;
//   when this process has been told to end (SIGTERM), the launcher has not said that this is an
//     ordinary stop (stop_word.hpp), and the step does not end soon after that. The launcher stops
//     the ranks that are left as soon as one has failed, and on one host NCCL itself notices
//     nothing. In an ordinary stop the other ranks still come, however long the step takes;
//   when the host has given all of the step to the GPU, and has waited as long as a collective may
//     take.
//
// Pure. Thread rule: one thread at a time.
#pragma once

#include "rendezvous/base/time.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::worker {

// How long a step may still take after SIGTERM: twice as long as the longest one so far, within
// these bounds. The first one does not count: it loads kernels and connects the ranks. ddprun sends
// SIGKILL after 5 s (stop_grace) unless a snapshot is being written by then.
constexpr std::chrono::milliseconds after_stop_min{1000};
constexpr std::chrono::milliseconds after_stop_max{2000};

class loss_rule {
 public:
  // `wait_limit`: how long a step may wait for other ranks.
  explicit loss_rule(duration wait_limit) : wait_limit_(wait_limit) {}

  void begin_step(time_point now);
  void begin_wait(time_point now);
  void end_step(time_point now);
  // Why a rank counts as lost; empty: none does. `sign`: what says that one is lost, if anything
  // does. `stop_has_come`: this process was told to end, and perhaps because one is lost; it may
  // become known that none is, or that one is after all.
  std::string look(time_point now, const std::string& sign, bool stop_has_come);

 private:
  duration wait_limit_;
  std::uint64_t steps_ = 0;
  duration longest_{0};
  time_point began_{};
  std::optional<time_point> waits_since_;
  std::optional<time_point> stopped_;  // SIGTERM was first seen, or the step began after it
};

}  // namespace ddprun::worker
