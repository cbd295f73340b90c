// Reads one of ddprun's own lines in the form of --log-format=json (rendezvous/log/own_line.hpp)
// from a saved log.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// Longer lines are not ours.
inline constexpr std::size_t json_line_bytes_max = 64 * 1024;

struct own_json_line {
  note_level level = note_level::info;
  round_number round = 0;  // 0: none
  std::string message;
  std::vector<std::string> lines;  // of a report, without marks
};

// Empty: it is not an object, or not ddprun's.
std::optional<own_json_line> read_own_json_line(std::string_view line);

}  // namespace ddprun::launcher
