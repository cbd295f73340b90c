// ASCII characters, independent of the locale.
#pragma once

namespace ddprun::launcher::kubernetes {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

constexpr bool is_small_letter(char c) {
  return c >= 'a' && c <= 'z';
}

constexpr char to_small_letter(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

constexpr bool is_letter(char c) {
  return is_small_letter(to_small_letter(c));
}

}  // namespace ddprun::launcher::kubernetes
