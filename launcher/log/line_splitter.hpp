// A line_splitter cuts a stream of bytes into whole lines, so that the output of several workers is
// mixed line by line and never within one.
//
// A line that has no end yet (a prompt) is handed on after `open_line_delay`, and goes on later;
// after `cut_line_delay` where whole blocks came, for then a writer with a buffer has cut it. A
// lone carriage return (a progress bar drawing over itself) begins the line's next state, which
// takes the place of the one before: of those that nobody has seen only the newest is handed on, so
// at most one in `open_line_delay`, the last of a line and of the stream always.
//
// Pure: bytes and moments in, calls out. No byte is lost or changed, but for those states, and a
// carriage return at the beginning of one. A line longer than the limit is cut, which is said
// there; one without its newline at the end is given one. Bytes need not be valid UTF-8; of text no
// character is cut.
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

  // What is to be shown next. The views live for the call.
  struct piece {
    log::line_part::kind how = log::line_part::kind::opens;  // never `passes` or `begins`
    std::string_view text;  // with the newline, if it is the end of a line
    std::string_view line;  // then all of it; else empty
    bool is_state = false;  // of a progress bar, and no end
  };
  using piece_handler = std::function<void(const piece&)>;

  // `limit` in bytes without the newline, at least 1: a longer line is cut there.
  line_splitter(std::size_t limit, piece_handler handler);

  void feed(std::string_view bytes, time_point now);

  // When to call hand_on_open; none: nothing waits for that.
  std::optional<time_point> due() const { return due_; }
  void hand_on_open();

  // The stream has ended: what is left comes out as a line.
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
  std::string state_;          // the newest of the line that has no end yet, at most the limit
  std::size_t seen_ = 0;       // so much of it was handed on
  bool was_seen_ = false;      // something of this line was
  bool has_states_ = false;    // there was a lone carriage return in this line
  bool after_return_ = false;  // a carriage return came last: it may begin "\r\n"
  std::optional<time_point> due_;
};

}  // namespace ddprun::launcher
