// What waits for a person's command, in order: a short queue, beyond which all is counted and left
// out.
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

// How a call has ended.
struct hook_end {
  exit_status status;      // where it ran
  std::string problem;     // it could not be run, or was killed: why
  std::string last_words;  // the last line that it has printed
  bool success() const { return problem.empty() && status.success(); }
};

struct hook_call {
  std::string what;   // for messages: "round_failed of round 2"
  std::string input;  // on its standard input
  // Where somebody waits for it; not called for one that is left out. In place of a message.
  std::function<void(const hook_end&)> ended = nullptr;
};

class hook_queue {
 public:
  explicit hook_queue(std::size_t most) : most_(most) {}

  // The oldest are kept: what began the trouble says more than what followed.
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

  // What waits is left out, too.
  void clear() {
    left_out_ += waiting_.size();
    waiting_.clear();
  }

  bool empty() const { return waiting_.empty(); }
  // Since it was last asked.
  std::uint64_t take_left_out() { return std::exchange(left_out_, 0); }

 private:
  std::size_t most_;
  std::deque<hook_call> waiting_;
  std::uint64_t left_out_ = 0;
};

}  // namespace ddprun::launcher
