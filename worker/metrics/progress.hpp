// Progress shows how far an epoch has come: on a terminal a bar that is redrawn in its place,
// elsewhere (a log, the launcher's pipe) a plain line now and then.
//
//   progress shown("epoch 3", steps);
//   for (...) shown.update(step, samples, "loss 0.4312");
//   shown.finish("loss 0.4120 | acc 0.8750");
//
//   epoch 3 [=============>................]  45 % | 1210 samples/s | 3 s left | loss 0.4312
//   epoch 3 | step 45 of 100 | 1210 samples/s | 3 s left | loss 0.4312
//
// Thread rule: one thread; one object at a time on a terminal. Rank 0 shows it, for all.
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
  // None: whether standard error is a terminal.
  std::optional<bool> is_terminal;
  std::size_t width = 0;                             // of the terminal; 0: asked for, else 80
  std::function<void(std::string_view text)> write;  // default: to standard error
  std::function<time_point()> now;                   // default: the monotonic clock
};

class progress {
 public:
  // `total` steps; 0: not known.
  progress(std::string title, std::uint64_t total, progress_options options = {});

  // So many steps are done, with so many samples in all; text about them. Shown when it is time.
  void update(std::uint64_t done, std::uint64_t samples, std::string_view text = "");
  // The last line: it stays. The rate is that of the whole.
  void finish(std::string_view text = "");

  // Since the beginning; 0 at it.
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
