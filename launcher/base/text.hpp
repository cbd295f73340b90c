// Takes short texts apart: lists of the command line, of variables and of the kernel.
//
// Thread rule: pure functions. What they return points into the text that was given.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// The parts between the separators, empty ones too: at least one.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t found = text.find(separator);
    parts.push_back(text.substr(0, found));
    if (found == std::string_view::npos) return parts;
    text.remove_prefix(found + 1);
  }
}

// Without blanks and control characters at both ends.
inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && static_cast<unsigned char>(text.front()) <= ' ')
    text.remove_prefix(1);
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ')
    text.remove_suffix(1);
  return text;
}

}  // namespace ddprun::launcher
