// A short queue of calls of a user's command. What does not fit is counted and dropped.
#pragma once

#include "launcher/process/exit_status.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::launcher {

// How a call of the command has ended.
struct hook_end {
  exit_status status;     // if it ran
  std::string problem;    // why it could not be run, or was killed
  std::string last_line;  // the last line of its output
  bool success() const { return problem.empty() && status.success(); }
};

struct hook_call {
  std::string what;   // for messages: "round_failed of round 2"
  std::string input;  // its standard input
  // Called instead of a message. Not called for a call that is dropped.
  std::function<void(const hook_end&)> ended = nullptr;
};

class hook_queue {
 public:
  explicit hook_queue(std::size_t most) : most_(most) {}

  // The oldest are kept, because the beginning of a failure says more than its consequences.
  void offer(hook_call call) {
    if (waiting_.size() < most_) {
      waiting_.push_back(std::move(call));
    } else {
      ++left_out_;
    }
  }

  std::optional<hook_call> next() {
    if (waiting_.empty()) return {};
    hook_call first = std::move(waiting_.front());
    waiting_.pop_front();
    return first;
  }

  // Waiting calls count as dropped.
  void clear() {
    left_out_ += waiting_.size();
    waiting_.clear();
  }

  bool empty() const { return waiting_.empty(); }
  // Since the last call.
  std::uint64_t take_left_out() { return std::exchange(left_out_, 0); }

 private:
  std::size_t most_;
  std::deque<hook_call> waiting_;
  std::uint64_t left_out_ = 0;
};

}  // namespace ddprun::launcher
