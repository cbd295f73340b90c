// What waits for a person's command, in order: a short queue, beyond which all is counted and left
// out.
//
// Thread rule: plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::launcher {

struct hook_call {
  std::string what;   // for messages: "round_failed of round 2"
  std::string input;  // on its standard input
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
