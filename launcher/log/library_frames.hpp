// Recognises the lines of a Python traceback for frames in installed packages and in Python itself.
// They are dimmed on a terminal, so that the user's own frames and the exception stand out, and
// they are dropped first from the tail that is kept of a worker's output.
//
//   [rank3]:   File "/usr/lib/python3/dist-packages/torch/_tensor.py", line 623, in backward
//   [rank3]:     torch.autograd.backward(
//   [rank3]:     ^^^^^^^^^^^^^^^^^^^^^^^^
#pragma once

#include <string_view>

namespace ddprun::launcher {

class library_frames {
 public:
  // The stream's next complete line, with or without its newline. True: it belongs to such a frame.
  bool take(std::string_view line);
  // The last line was the first of a frame.
  bool has_begun() const { return has_begun_; }
  bool is_within() const { return is_within_; }

 private:
  bool has_begun_ = false;
  bool is_within_ = false;  // a source line of the frame may follow
};

}  // namespace ddprun::launcher
