// Finds exceptions of Python in what a program has written to its standard error.
//
// It reads what the interpreter prints (traceback.print_exception): "Traceback (most recent call
// last):", lines of frames, and the exception; and chains of them, oldest first. PyTorch puts
// "[rank3]: " before each line. The text may have lost its beginning, in any line.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

struct python_frame {
  std::string place;     // "train.py:31 in step"
  std::string code;      // what stands there; empty: not known
  bool is_users = true;  // not of Python itself, nor of an installed package
};

struct python_error {
  std::string text;                  // its first line: "ValueError: loss is NaN"
  std::vector<python_frame> frames;  // the innermost last
  // Of the first of a chain: what was raised before it is cut off.
  bool has_lost_origin = false;
  std::string last_error;  // what NCCL says below it, after "Last error:"
};

// The last chain of exceptions, the first cause in front; a group's parts are of its chain. Those
// that end no process are left out (of __del__, of a thread, at exit), and those of a child process
// unless there is no other. Empty: there is none.
std::vector<python_error> find_python_errors(std::string_view text);

}  // namespace ddprun::launcher
