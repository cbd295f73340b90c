// The lines of a C++ stack as PyTorch prints it below an error, 30 of them and more:
//
//   frame #0: c10::Error::Error(c10::SourceLocation, ...) + 0x9d (0x7ff5 in .../libc10.so)
//   frame #1: ...
//
// They say where, and seldom to the person who trains; the error above them says what. Where room
// is short their first ones are kept, and for the others stands a line that counts them. Its words
// begin as theirs, so that what reads stacks takes it for one of them.
//
// Format: c10/util/Backtrace.cpp of PyTorch 2.11 to 2.15.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

inline constexpr std::uint32_t stack_frames_kept = 3;

// The number of a line of a stack, also behind "[rank3]: "; none: it is no such line.
std::optional<std::uint32_t> stack_frame_in(std::string_view line);

// Which lines of a stream are left out.
class stack_frames {
 public:
  enum class what { keep, leave_out };

  // A line without its end. What was left out before it is to be told above it, where that is any.
  what take(std::string_view line);

  // The last line was one of a stack: what follows may go on with it.
  bool is_within() const { return is_within_; }

  // "frame #3 to #29: 27 frames are left out\n", of those right above; empty: none are.
  std::string left_out() const;
  // The same, when a line is taken that is no more of that stack; once.
  std::string take_left_out();

 private:
  bool is_within_ = false;
  std::uint32_t first_ = 0;  // left out
  std::uint32_t last_ = 0;
  std::uint32_t count_ = 0;
  std::string told_;
};

}  // namespace ddprun::launcher
