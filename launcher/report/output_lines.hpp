// The lines that a program has written, and which of them say nothing of whether it went on: what
// the interpreter and the C++ runtime print on the way out.
#pragma once

#include <string_view>
#include <vector>

namespace ddprun::launcher {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Without their ends, and without PyTorch's "[rank3]: " before them. They point into the text.
std::vector<std::string_view> output_lines(std::string_view text);

// Empty, indented, part of a traceback or of a C++ stack, a warning of a library.
bool is_of_way_out(std::string_view line);

// "Fatal Python error: Segmentation fault", after which faulthandler tells where the threads were.
bool is_fatal_error(std::string_view line);

}  // namespace ddprun::launcher
