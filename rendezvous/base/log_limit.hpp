// A log limit prevents events that anybody can cause from outside, such as a port scan, from
// filling a log: it admits some lines at once, then one per interval. A line says how many were
// left out before it.
//
// It has no clock of its own.
#pragma once

#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

class log_limit {
 public:
  static constexpr int lines_at_once = 20;
  static constexpr duration interval = std::chrono::seconds(10);

  // Returns the line to write, or nothing if it is left out.
  std::optional<std::string> admit(std::string line, time_point now) {
    if (paid_until_ < now) paid_until_ = now;
    if (paid_until_ - now > (lines_at_once - 1) * interval) {
      ++left_out_;
      return std::nullopt;
    }
    paid_until_ += interval;
    if (left_out_ != 0) line += "; " + std::to_string(left_out_) + " lines like it were left out";
    left_out_ = 0;
    return line;
  }

 private:
  time_point paid_until_;  // each line pays for one interval
  std::uint64_t left_out_ = 0;
};

}  // namespace ddprun
