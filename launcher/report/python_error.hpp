// Finds Python exceptions in a program's standard error.
//
// It reads what the interpreter prints (traceback.print_exception): "Traceback (most recent call
// last):", frames, and the exception; chains of these, the oldest first; and rich's boxes. PyTorch
// puts "[rank3]: " before each line. The beginning of the text may be cut off anywhere.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

struct python_frame {
  std::string place;     // "train.py:31 in step"
  std::string code;      // the source line; empty: unknown
  bool is_users = true;  // neither Python's own nor an installed package's
};

struct python_error {
  std::string text;                  // its first line: "ValueError: loss is NaN"
  std::vector<python_frame> frames;  // innermost last
  // For the first of a chain: the exception that it followed from was cut off.
  bool has_lost_origin = false;
  std::vector<std::string> more;  // the lines below, some of which belong to its message
};

// Which process has printed an exception, and in which situation.
enum class printed_by {
  interpreter,  // on the way out, as far as can be known: it reaches up to the main program
  program,      // which has caught it and may have gone on
  child,        // a child process of multiprocessing
};

// Exceptions that follow from each other, the original one first; the parts of a group belong to
// its chain. What a child process or a loader's worker has raised replaces the exception that only
// passes it on.
struct python_chain {
  std::vector<python_error> errors;
  printed_by by = printed_by::interpreter;
  std::size_t lines_after = 0;  // lines that the program has written since (output_lines.hpp)
};

// Chains in their order. Exceptions that end no process are left out: in __del__, in a thread, at
// exit, and those that Python's own library catches.
std::vector<python_chain> find_python_chains(std::string_view text);

// The stack of the thread that a signal has ended, innermost last, as faulthandler prints it;
// empty: it has not.
std::vector<python_frame> find_dumped_frames(std::string_view text);

}  // namespace ddprun::launcher
