// Splits output into lines, and recognises those that do not show that a program went on: what the
// interpreter and the C++ runtime print on the way out.
#pragma once

#include <string_view>
#include <vector>

namespace ddprun::launcher {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Splits text into lines, without line ends and PyTorch's "[rank3]: ". They are views of the text.
std::vector<std::string_view> output_lines(std::string_view text);

// True for lines that are empty, indented, part of a traceback or of a C++ stack, or a library's
// warning.
bool is_of_way_out(std::string_view line);

// True for "Fatal Python error: Segmentation fault", after which faulthandler prints the threads'
// stacks.
bool is_fatal_error(std::string_view line);

}  // namespace ddprun::launcher
