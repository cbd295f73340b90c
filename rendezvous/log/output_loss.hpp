// An output_loss counts output that never reaches its reader, so that a message can say so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::log {

struct output_loss {
  std::uint64_t lines = 0;  // whole or partial
  std::uint64_t bytes = 0;
  bool in_line = false;  // the last line is counted and had no newline yet

  bool none() const { return lines == 0 && bytes == 0; }
  void add(std::string_view text);  // continues where the last text ended
  void add(const output_loss& other);
  std::string describe() const;                         // "12 lines (3400 bytes)"
  std::string is_lost(const std::string& whose) const;  // "... of rank 3's output are lost"
};

}  // namespace ddprun::log
