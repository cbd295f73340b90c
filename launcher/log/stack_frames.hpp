// The lines of a C++ stack, 30 and more, that PyTorch prints below an error:
//
//   frame #0: c10::Error::Error(c10::SourceLocation, ...) + 0x9d (0x7ff5 in .../libc10.so)
//   frame #1: ...
//
// They tell where, which rarely helps the user; the error above them tells what. If room is short,
// only the first frames are kept, and a line counts the others. It begins like a frame, so that
// programs that read stacks accept it.
//
// Format: c10/util/Backtrace.cpp of PyTorch 2.11 to 2.15.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

inline constexpr std::uint32_t stack_frames_kept = 3;

// Returns the frame number of a line, also behind "[rank3]: "; none: it is no frame.
std::optional<std::uint32_t> stack_frame_in(std::string_view line);

// Decides which lines of a stream are left out.
class stack_frames {
 public:
  enum class what { keep, leave_out };

  // Takes a line without its newline. Frames left out before it have to be reported above it.
  what take(std::string_view line);

  // The last line was a frame, so the stack may continue.
  bool is_within() const { return is_within_; }

  // "frame #3 to #29: 27 frames are left out\n" for the frames right above; empty: none are.
  std::string left_out() const;
  // The same, once, after the first line that does not continue the stack.
  std::string take_left_out();

 private:
  bool is_within_ = false;
  std::uint32_t first_ = 0;  // of the frames left out
  std::uint32_t last_ = 0;
  std::uint32_t count_ = 0;
  std::string told_;
};

}  // namespace ddprun::launcher
