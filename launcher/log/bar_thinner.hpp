// A bar_thinner leaves those states of progress bars out of a log file that nobody could have seen:
// a lone carriage return begins the next state of a line, and of those that come within
// `open_line_delay` only the newest is written, with its carriage return. The last of a line and of
// the stream always is.
//
// Everything else is written as it is, at once; from the first NUL on everything: that is no text.
//
// Pure: bytes and moments in, bytes out.
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

  static constexpr std::size_t state_bytes_max = 64 * 1024;  // one that is longer is no bar's

  // What is to be written now; valid until the next call, and as long as `bytes`.
  std::string_view feed(std::string_view bytes, time_point now);

  // When to call take_held; none: nothing waits for that.
  std::optional<time_point> due() const { return due_; }
  // The newest state. Valid until the next call, as is the next.
  std::string_view take_held();
  // The stream has ended: what is left.
  std::string_view finish();

 private:
  void take(std::string_view text);
  void let_go();

  bool is_binary_ = false;
  bool is_held_ = false;
  std::string held_;         // the newest state, with what stands before it
  std::size_t returns_ = 0;  // carriage returns that came last: a state or "\r\n" follows
  std::string out_;
  std::optional<time_point> due_;
};

}  // namespace ddprun::launcher
