// A line_splitter cuts a stream of bytes into complete lines, so that the output of several workers
// is interleaved by line.
//
// An incomplete line (a prompt) is passed on after `open_line_delay` and continued later. After
// whole blocks the delay is `cut_line_delay`, because then a writer's buffer has cut the line. A
// lone carriage return (a progress bar) begins the line's next state, which replaces the one
// before. Of states that were not passed on yet only the newest is, so at most one per
// `open_line_delay`; the last state of a line and of the stream always is.
//
// Pure: bytes and times in, calls out. No byte is lost or changed, except replaced states and their
// carriage returns. A line longer than the limit is cut, with a note; a last line without a newline
// gets one. Bytes need not be valid UTF-8; a valid character is never cut.
//
// Thread rule: one thread at a time.
#pragma once

#include "rendezvous/log/open_line.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

inline constexpr std::chrono::milliseconds open_line_delay{100};
inline constexpr std::chrono::milliseconds cut_line_delay{1000};

class line_splitter {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  // What to show next. The views are valid during the call.
  struct piece {
    log::line_part::kind how = log::line_part::kind::opens;  // never `passes` or `begins`
    std::string_view text;  // includes the newline if it ends a line
    std::string_view line;  // then the complete line; else empty
    bool is_state = false;  // a progress bar's state, and not its last
  };
  using piece_handler = std::function<void(const piece&)>;

  // `limit` in bytes without the newline, at least 1: longer lines are cut there.
  line_splitter(std::size_t limit, piece_handler handler);

  void feed(std::string_view bytes, time_point now);

  // When to call hand_on_open; none: nothing is held back.
  std::optional<time_point> due() const { return due_; }
  void hand_on_open();

  // The stream has ended: passes the rest on as a line.
  void finish();

 private:
  void append(std::string_view text);
  void begin_state();
  void end_line(std::string_view text, std::string_view ending);
  void hand_on(std::string_view ending);
  void forget_line();
  bool has_unseen() const { return seen_ < state_.size(); }

  std::size_t limit_;
  piece_handler handler_;
  std::string state_;          // the newest of the incomplete line, at most the limit
  std::size_t seen_ = 0;       // how much of it was passed on
  bool was_seen_ = false;      // a part of this line was passed on
  bool has_states_ = false;    // this line had a lone carriage return
  bool after_return_ = false;  // the last byte was a carriage return: it may begin "\r\n"
  std::optional<time_point> due_;
};

}  // namespace ddprun::launcher
