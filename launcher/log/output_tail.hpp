// An output_tail keeps the last bytes of a worker's standard error, for the report of its failure.
// Of a progress bar it keeps the newest state, of a C++ stack the first frames (stack_frames.hpp),
// and of consecutive frames of installed packages the last ones: so that what was printed before
// the bar, the error above the stack, and the user's own frames are not pushed out.
//
// Thread rule: one thread at a time. Memory: little more than twice the limit.
#pragma once

#include "launcher/log/library_frames.hpp"
#include "launcher/log/stack_frames.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// The most that a report may carry.
inline constexpr std::size_t output_tail_bytes_max = tail_bytes_max;

// How many consecutive frames of packages are kept, the innermost.
inline constexpr std::size_t library_frames_kept = 3;

class output_tail {
 public:
  void add(std::string_view bytes);

  // Returns valid UTF-8 of at most the limit, from the beginning of a line if possible. Invalid
  // bytes become U+FFFD; terminal colours are removed.
  std::string text() const;

 private:
  void append(std::string_view bytes);
  void begin_line_anew();
  bool may_have_frames(std::string_view bytes) const;
  void end_line();
  void shorten_library_run();
  void end_library_run();
  std::string library_note() const;
  void cut_front();

  std::string bytes_;
  std::size_t line_begin_ = 0;  // in bytes_, the beginning of the incomplete line
  stack_frames stack_;
  library_frames library_;
  // Where the kept frames of packages that follow one another begin in bytes_.
  std::vector<std::size_t> library_run_;
  std::uint32_t library_left_out_ = 0;  // dropped before them
  bool after_return_ = false;           // the carriage return may begin "\r\n"
  bool cut_ = false;                    // earlier bytes were dropped
};

}  // namespace ddprun::launcher
