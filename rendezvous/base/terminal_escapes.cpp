#include "rendezvous/base/terminal_escapes.hpp"

#include <algorithm>

namespace ddprun {
namespace {

// The size of the sequence after an escape; all of the text if the sequence does not end in it.
std::size_t escape_size(std::string_view text) {
  if (text.empty()) return 0;
  if (text.front() != '[') return 1;
  const auto end =
      std::find_if(text.begin() + 1, text.end(), [](char c) { return c >= '@' && c <= '~'; });
  return static_cast<std::size_t>(end - text.begin()) + (end == text.end() ? 0 : 1);
}

// Colours, and clearing all or the rest of a line.
bool is_in_line(std::string_view sequence) {
  return sequence.size() > 2 && sequence[1] == '[' && (sequence[2] < '<' || sequence[2] > '?') &&
         (sequence.back() == 'm' || sequence.back() == 'K');
}

template <typename Keep>
std::string filtered(std::string_view text, Keep&& keep) {
  std::string kept;
  while (true) {
    const auto escape = std::min(text.find('\x1b'), text.size());
    kept.append(text.substr(0, escape));
    text.remove_prefix(escape);
    if (text.empty()) return kept;
    const auto size = escape_size(text.substr(1)) + 1;
    const auto sequence = text.substr(0, size);
    if (keep(sequence)) kept.append(sequence);
    text.remove_prefix(size);
  }
}

}  // namespace

std::string without_cursor_moves(std::string_view text) {
  return filtered(text, is_in_line);
}

std::string without_escapes(std::string_view text) {
  return filtered(text, [](std::string_view) { return false; });
}

}  // namespace ddprun
