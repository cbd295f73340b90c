#include "rendezvous/base/utf8.hpp"

#include <cstdint>

namespace ddprun {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

bool is_continuation(char byte) {
  return (static_cast<std::uint8_t>(byte) & 0xC0) == 0x80;
}

// The size of the well-formed sequence at the start of `bytes` (Unicode table 3-7); 0: there is
// none.
std::size_t sequence_size(std::string_view bytes) {
  const auto at = [&](std::size_t index) { return static_cast<std::uint8_t>(bytes[index]); };
  const std::uint8_t first = at(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (bytes.size() < size) return 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (first == 0xE0) low = 0xA0;   // overlong
  if (first == 0xED) high = 0x9F;  // surrogates
  if (first == 0xF0) low = 0x90;   // overlong
  if (first == 0xF4) high = 0x8F;  // beyond U+10FFFF
  if (at(1) < low || at(1) > high) return 0;
  for (std::size_t index = 2; index < size; ++index) {
    if (!is_continuation(bytes[index])) return 0;
  }
  return size;
}

}  // namespace

bool is_valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t size = sequence_size(bytes);
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t size = sequence_size(bytes);
    text += size == 0 ? replacement : bytes.substr(0, size);
    bytes.remove_prefix(size == 0 ? 1 : size);
  }
  return text;
}

std::string_view without_begun(std::string_view bytes) {
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const auto byte = static_cast<std::uint8_t>(bytes[bytes.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t size = byte < 0xC2 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    return size > back && byte <= 0xF4 ? bytes.substr(0, bytes.size() - back) : bytes;
  }
  return bytes;
}

std::string_view first_of(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max;
  while (end > 0 && is_continuation(text[end]))
    --end;
  return text.substr(0, end);
}

std::string_view last_of(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t begin = text.size() - bytes_max;
  while (begin < text.size() && is_continuation(text[begin]))
    ++begin;
  return text.substr(begin);
}

}  // namespace ddprun
