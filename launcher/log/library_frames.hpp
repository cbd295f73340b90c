// The lines of a Python traceback that tell of frames in installed packages and in Python itself:
// on a terminal they are dim, so that a person's own frames and the exception stand out, and of
// what is kept of a worker's last words they are the first to go.
//
//   [rank3]:   File "/usr/lib/python3/dist-packages/torch/_tensor.py", line 623, in backward
//   [rank3]:     torch.autograd.backward(
//   [rank3]:     ^^^^^^^^^^^^^^^^^^^^^^^^
#pragma once

#include <string_view>

namespace ddprun::launcher {

class library_frames {
 public:
  // The stream's next whole line, with or without its end. True: it is of such a frame.
  bool take(std::string_view line);
  // The last line began it.
  bool has_begun() const { return has_begun_; }
  bool is_within() const { return is_within_; }

 private:
  bool has_begun_ = false;
  bool is_within_ = false;  // the code of one may follow
};

}  // namespace ddprun::launcher
