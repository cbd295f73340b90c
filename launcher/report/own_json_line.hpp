// One of ddprun's own lines as --log-format=json has it (rendezvous/log/own_line.hpp), read from a
// saved log.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// What is longer is none of ours.
inline constexpr std::size_t json_line_bytes_max = 64 * 1024;

struct own_json_line {
  note_level level = note_level::info;
  round_number round = 0;  // 0: it is of none
  std::string message;
  std::vector<std::string> lines;  // of a report, without marks
};

// None: it is no object, or not ddprun's.
std::optional<own_json_line> read_own_json_line(std::string_view line);

}  // namespace ddprun::launcher
