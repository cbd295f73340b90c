// Reads where a Python worker is from what faulthandler has written.
//
// The format is CPython's (Python/traceback.c, 3.8 to 3.14): a heading for each thread ("Thread
// 0x... (most recent call first):", "Current thread ..."), and a line for each frame, the innermost
// first: ` File "PATH", line N in NAME`. The current thread is the one that handled the signal: the
// main thread, unless that blocks the signal. Lines that are cut off or have another form are
// skipped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::evidence {

struct stack_frame {
  std::string file;
  std::uint32_t line = 0;
  std::string function;
  bool operator==(const stack_frame&) const = default;
};

// The main thread's frames, innermost first, at most frames_max; empty: they are not known.
inline constexpr std::size_t frames_max = 128;
std::vector<stack_frame> main_stack(std::string_view text);

// Describes a stack in words.
struct standing {
  // The torch.distributed call that it is in ("all_reduce"), or "backward", where DDP waits for
  // gradients; empty: neither.
  std::string waits_in;
  // The innermost frame of the user's own code: "forward (train.py:88)"; empty: there is no stack.
  std::string place;
  bool operator==(const standing&) const = default;
};

standing standing_of(const std::vector<stack_frame>& stack);

}  // namespace ddprun::launcher::evidence
