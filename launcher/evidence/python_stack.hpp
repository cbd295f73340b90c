// Where a Python worker stands, read from what faulthandler has written of its threads.
//
// The format is CPython's (Python/traceback.c, 3.8 to 3.14): a heading for each thread ("Thread
// 0x... (most recent call first):", "Current thread ..."), and a line for each frame, the innermost
// first: `  File "PATH", line N in NAME`. The thread that had the signal is the current one, which
// is the main thread unless that blocks it. What is cut off or is none of this is left out.
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

// Of the main thread, innermost first, at most frames_max; empty: nothing is known of it.
inline constexpr std::size_t frames_max = 128;
std::vector<stack_frame> main_stack(std::string_view text);

// What a stack says in words.
struct standing {
  // The call of torch.distributed that it is in ("all_reduce"), or "backward", where DDP waits for
  // gradients; empty: neither.
  std::string waits_in;
  // The innermost frame of the user's own: "forward (train.py:88)"; empty: there is no stack.
  std::string place;
  bool operator==(const standing&) const = default;
};

standing standing_of(const std::vector<stack_frame>& stack);

}  // namespace ddprun::launcher::evidence
