// Shows how far an epoch has progressed: on a terminal a bar that is redrawn in place, elsewhere (a
// log, the launcher's pipe) a plain line at intervals.
//
//   progress shown("epoch 3", steps);
//   for (...) shown.update(step, samples, "loss 0.4312");
//   shown.finish("loss 0.4120 | acc 0.8750");
//
//   epoch 3 [=============>................]  45 % | 1210 samples/s | 3 s left | loss 0.4312
//   epoch 3 | step 45 of 100 | 1210 samples/s | 3 s left | loss 0.4312
//
// Thread rule: one thread, and one object at a time on a terminal. Only rank 0 shows it, for all
// ranks. Errors: none.
#pragma once

#include "rendezvous/base/time.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::worker {

struct progress_options {
  std::chrono::milliseconds bar_interval{100};
  std::chrono::milliseconds line_interval{10000};
  // By default, whether standard error is a terminal.
  std::optional<bool> is_terminal;
  std::size_t width = 0;                             // columns; 0: the terminal's, or 80
  std::function<void(std::string_view text)> write;  // default: to standard error
  std::function<time_point()> now;                   // default: the monotonic clock
};

class progress {
 public:
  // `total` is the number of steps; 0 if unknown.
  progress(std::string title, std::uint64_t total, progress_options options = {});

  // Reports the steps and samples done so far, and a text about them. Shown if the interval is
  // over.
  void update(std::uint64_t done, std::uint64_t samples, std::string_view text = "");
  // Writes the final line, which stays. Its rate is that of the whole epoch.
  void finish(std::string_view text = "");

  // Averaged since the start; 0 before any time has passed.
  double samples_per_second() const;

 private:
  std::string line(bool is_last, std::string_view text) const;
  std::string bar(std::string_view text) const;
  std::string left() const;

  std::string title_;
  std::uint64_t total_;
  progress_options options_;
  time_point start_;
  std::optional<time_point> shown_at_;
  std::uint64_t done_ = 0;
  std::uint64_t samples_ = 0;
};

}  // namespace ddprun::worker
