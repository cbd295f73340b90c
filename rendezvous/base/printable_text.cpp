#include "rendezvous/base/printable_text.hpp"

#include "rendezvous/base/terminal_escapes.hpp"

#include <cstddef>

namespace ddprun {
namespace {

// Bytes of the control character that the text begins with; 0: it begins with another one.
std::size_t control_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7F) return 1;
  if (first != 0xC2 || text.size() < 2) return 0;
  return static_cast<unsigned char>(text[1]) < 0xA0 ? 2 : 0;
}

template <typename Keep>
std::string with_blanks(std::string_view text, Keep&& keep) {
  const std::string plain = without_escapes(text);
  std::string made;
  made.reserve(plain.size());
  for (std::size_t at = 0; at < plain.size();) {
    const std::size_t size = control_size(std::string_view(plain).substr(at));
    if (size == 0 || keep(plain[at])) {
      made += plain[at++];
    } else {
      made += ' ';
      at += size;
    }
  }
  return made;
}

}  // namespace

bool has_control_characters(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (control_size(text.substr(at)) != 0) return true;
  }
  return false;
}

std::string in_one_line(std::string_view text) {
  return with_blanks(text, [](char) { return false; });
}

std::string in_lines(std::string_view text) {
  return with_blanks(text, [](char c) { return c == '\n' || c == '\t'; });
}

}  // namespace ddprun
