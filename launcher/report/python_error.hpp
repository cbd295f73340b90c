// Finds exceptions of Python in what a program has written to its standard error.
//
// It reads what the interpreter prints (traceback.print_exception): "Traceback (most recent call
// last):", lines of frames, and the exception; and chains of them, oldest first. It reads rich's
// boxes, too. PyTorch puts "[rank3]: " before each line. The text may have lost its beginning, in
// any line.
#pragma once

#include <cstddef>
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
  std::vector<std::string> more;  // the lines below it, some of which are of its message
};

// The process that has printed it.
enum class printed_by {
  interpreter,  // as far as can be known, on the way out: it reaches up to the main program
  program,      // which has caught it: it may have gone on
  child,        // a child process, of multiprocessing
};

// Exceptions that follow from each other, the root cause in front; a group's parts are of its
// chain. What a child process or a loader's worker has raised stands in the place of the exception
// that only hands it on.
struct python_chain {
  std::vector<python_error> errors;
  printed_by by = printed_by::interpreter;
  std::size_t lines_after = 0;  // lines that the program has written since (output_lines.hpp)
};

// In their order. Those that end no process are left out: of __del__, of a thread, at exit, and
// those that Python's own library catches.
std::vector<python_chain> find_python_chains(std::string_view text);

// Where the thread was that a signal ended, the innermost last, as faulthandler tells it. Empty: it
// has not.
std::vector<python_frame> find_dumped_frames(std::string_view text);

}  // namespace ddprun::launcher
