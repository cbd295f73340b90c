// Splits a line into words.
#pragma once

#include <string_view>

namespace ddprun::launcher::vault {

// Takes the first word off: the text up to the next blank, or to the line's end.
inline std::string_view next_word(std::string_view& line) {
  const std::size_t blank = line.find(' ');
  const std::string_view word = line.substr(0, blank);
  line.remove_prefix(blank == std::string_view::npos ? line.size() : blank + 1);
  return word;
}

}  // namespace ddprun::launcher::vault
