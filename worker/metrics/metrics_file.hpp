// A metrics file holds the numbers of a job over all its restarts, one JSON object for each line:
//
//   {"event":"start","time":1700000000.5,"round":2,"restart":1,"world_size":4,"step":240}
//   {"time":1700000003.1,"epoch":41,"step":246,"loss":0.0416,"samples_per_second":5400.2}
//
// A job that resumes from a snapshot repeats the steps after it; of two lines for one step the
// later one counts. examples/plot_metrics.py draws the file.
//
// A line is written with one call, so that a kill can cut off only the last line; the next start
// ends that line. A line that was cut off by a full disk is ended before the next one is written.
//
// Thread rule: one thread at a time. Only rank 0 writes it, for all ranks. Errors: the kernel's;
// `path()` names the file.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/environment.hpp"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::worker {

class metrics_file {
 public:
  using number = std::pair<std::string_view, double>;

  // Opens the file for appending, creates it if needed, and records a start after `step` steps.
  static result<metrics_file> open(const std::string& path, const environment& here,
                                   std::uint64_t step);
  metrics_file(metrics_file&&) = default;
  metrics_file& operator=(metrics_file&&) = default;

  // A value that is not finite (a loss that has diverged) is written as null.
  error_code write(std::uint64_t epoch, std::uint64_t step, std::span<const number> numbers);
  error_code write(std::uint64_t epoch, std::uint64_t step, std::initializer_list<number> numbers) {
    return write(epoch, step, std::span<const number>(numbers.begin(), numbers.size()));
  }

  const std::string& path() const { return path_; }

 private:
  struct descriptor;
  metrics_file(std::shared_ptr<descriptor> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  error_code append(std::string_view line);

  std::shared_ptr<descriptor> file_;
  bool is_cut_ = false;  // the last line has no newline
  std::string path_;
};

}  // namespace ddprun::worker
