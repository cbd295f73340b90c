// A metrics file keeps the numbers of a job, one JSON object a line, over all its restarts:
//
//   {"event":"start","time":1700000000.5,"round":2,"restart":1,"world_size":4,"step":240}
//   {"time":1700000003.1,"epoch":41,"step":246,"loss":0.0416,"samples_per_second":5400.2}
//
// A job that goes on from a snapshot writes the steps behind it once more: what stands later in the
// file counts. examples/plot_metrics.py draws it.
//
// A line is written at once, so that a kill cuts at most the last one; the next start ends that.
// One that a full disk has cut is ended before the next one is written.
//
// Rank 0 has it, for all. Errors: the kernel's; `path()` names the file.
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

  // Adds to the file, which is made when it is not there: a start after `step` steps.
  static result<metrics_file> open(const std::string& path, const environment& here,
                                   std::uint64_t step);
  metrics_file(metrics_file&&) = default;
  metrics_file& operator=(metrics_file&&) = default;

  // What is no number (a loss that has become infinite) is written as null.
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
  bool is_cut_ = false;  // the last line has no end
  std::string path_;
};

}  // namespace ddprun::worker
