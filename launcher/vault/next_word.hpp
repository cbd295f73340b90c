// Takes a line apart, word by word.
//
// Thread rule: pure function.
#pragma once

#include <string_view>

namespace ddprun::launcher::vault {

// The text up to the next blank, or the line's end, taken off.
inline std::string_view next_word(std::string_view& line) {
  const std::size_t blank = line.find(' ');
  const std::string_view word = line.substr(0, blank);
  line.remove_prefix(blank == std::string_view::npos ? line.size() : blank + 1);
  return word;
}

}  // namespace ddprun::launcher::vault
