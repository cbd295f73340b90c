#include "rendezvous/base/printable_text.hpp"

#include "rendezvous/base/terminal_escapes.hpp"

#include <cstddef>
#include <utility>

namespace ddprun {
namespace {

// The size of the control character at the beginning of the text; 0: there is none.
std::size_t control_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7F) return 1;
  if (first == 0xC2 && text.size() >= 2) return static_cast<unsigned char>(text[1]) < 0xA0 ? 2 : 0;
  if (first != 0xE2 || text.size() < 3) return 0;
  const auto last = static_cast<unsigned char>(text[2]);
  const bool ends_or_embeds = text[1] == '\x80' && last >= 0xA8 && last <= 0xAE;
  const bool isolates = text[1] == '\x81' && last >= 0xA6 && last <= 0xA9;
  return ends_or_embeds || isolates ? 3 : 0;
}

bool is_never_kept(char) {
  return false;
}
bool is_of_lines(char c) {
  return c == '\n' || c == '\t';
}

using keep_function = bool (*)(char);

bool holds_others(std::string_view text, keep_function is_kept) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (control_size(text.substr(at)) != 0 && !is_kept(text[at])) return true;
  }
  return false;
}

// Almost every text needs no change, which costs one scan and no copy.
std::string with_blanks(std::string text, keep_function is_kept) {
  if (!holds_others(text, is_kept)) return text;
  const std::string plain = without_escapes(text);
  std::string made;
  made.reserve(plain.size());
  for (std::size_t at = 0; at < plain.size();) {
    const std::size_t size = control_size(std::string_view(plain).substr(at));
    if (size == 0 || is_kept(plain[at])) {
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
  return holds_others(text, is_never_kept);
}

std::string in_one_line(std::string text) {
  return with_blanks(std::move(text), is_never_kept);
}

std::string in_lines(std::string text) {
  return with_blanks(std::move(text), is_of_lines);
}

}  // namespace ddprun
