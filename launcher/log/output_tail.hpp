// An output_tail keeps the last bytes of a worker's standard error, for the record of its failure.
// Of a progress bar (a lone carriage return begins a line anew) it keeps the newest state, so that
// what was said before it is still there; of a C++ stack the first frames (stack_frames.hpp), so
// that the error above it is; of frames of installed packages the last, so that a person's own are.
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

// All that the record may carry.
inline constexpr std::size_t output_tail_bytes_max = tail_bytes_max;

// Of those of a traceback that follow one another, the innermost.
inline constexpr std::size_t library_frames_kept = 3;

class output_tail {
 public:
  void add(std::string_view bytes);

  // Valid UTF-8 of at most the limit, beginning at a line where one begins in it. Bytes that are
  // none become U+FFFD; a terminal's colours are left out.
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
  std::size_t line_begin_ = 0;  // in bytes_, of the line that has no end yet
  stack_frames stack_;
  library_frames library_;
  // Of the frames of packages that follow one another, where the last ones begin in bytes_.
  std::vector<std::size_t> library_run_;
  std::uint32_t library_left_out_ = 0;  // before them
  bool after_return_ = false;           // it may begin "\r\n"
  bool cut_ = false;                    // bytes before these are gone
};

}  // namespace ddprun::launcher
