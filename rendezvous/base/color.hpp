// Terminal colours: whether a stream has them (--color), and text in a colour.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace ddprun {

enum class color_mode {
  automatic,  // on a terminal with colours, unless NO_COLOR or TERM=dumb says no
  always,
  never,
};

// The values are those of ECMA-48, "select graphic rendition".
enum class color : std::uint8_t { red = 31, yellow = 33 };

inline bool is_colored(color_mode mode, bool is_terminal, const environment_map& environment) {
  if (mode != color_mode::automatic) return mode == color_mode::always;
  const std::string* const objection = find_variable(environment, "NO_COLOR");
  const std::string* const terminal = find_variable(environment, "TERM");
  const bool is_unwanted = objection != nullptr && !objection->empty();
  return is_terminal && !is_unwanted && (terminal == nullptr || *terminal != "dumb");
}

inline std::string in_color(color which, std::string_view text) {
  return "\x1b[" + std::to_string(static_cast<int>(which)) + "m" + std::string(text) + "\x1b[0m";
}

// A line feed at the end stays outside of the sequence.
inline std::string in_dim(std::string_view line) {
  const bool has_end = line.ends_with('\n');
  if (has_end) line.remove_suffix(1);
  return "\x1b[2m" + std::string(line) + "\x1b[0m" + (has_end ? "\n" : "");
}

// Gives each rank a colour that differs from its neighbours'. None of them is used for warnings or
// errors.
inline color color_of_rank(std::uint32_t rank) {
  constexpr std::uint8_t numbers[] = {36, 32, 35, 34, 96, 92, 95, 94};
  return static_cast<color>(numbers[rank % std::size(numbers)]);
}

}  // namespace ddprun
