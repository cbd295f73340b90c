// A bar_thinner removes states of progress bars from a log file that would have been overwritten
// before anyone could see them. A lone carriage return begins the next state of a line; of the
// states that come within `open_line_delay` only the newest is written, with its carriage return.
// The last state of a line and of the stream is always written.
//
// Everything else is written unchanged and at once. After the first NUL everything is, because the
// stream is not text.
//
// Pure: bytes and times in, bytes out.
//
// Thread rule: one thread at a time. Memory: one state, at most `state_bytes_max` and one feed.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

class bar_thinner {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  static constexpr std::size_t state_bytes_max = 64 * 1024;  // a longer one is not a progress bar's

  // Returns what to write now; valid until the next call, and while `bytes` are.
  std::string_view feed(std::string_view bytes, time_point now);

  // When to call take_held; none: nothing is held back.
  std::optional<time_point> due() const { return due_; }
  // Returns the newest state; valid until the next call, like the result of finish.
  std::string_view take_held();
  // The stream has ended: returns the rest.
  std::string_view finish();

 private:
  void take(std::string_view text);
  void let_go();

  bool is_binary_ = false;
  bool is_held_ = false;
  std::string held_;         // the newest state, with the carriage returns before it
  std::size_t returns_ = 0;  // trailing carriage returns: a state or "\r\n" follows
  std::string out_;
  std::optional<time_point> due_;
};

}  // namespace ddprun::launcher
