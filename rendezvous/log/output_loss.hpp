// An output_loss counts what of an output never reaches its reader, so that a line can say so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::log {

struct output_loss {
  std::uint64_t lines = 0;  // whole or in part
  std::uint64_t bytes = 0;
  bool in_line = false;  // the last is counted, and had no newline yet

  bool none() const { return lines == 0 && bytes == 0; }
  void add(std::string_view text);  // goes on where the last ended
  void add(const output_loss& other);
  std::string describe() const;                         // "12 lines (3400 bytes)"
  std::string is_lost(const std::string& whose) const;  // "... of rank 3's output are lost"
};

}  // namespace ddprun::log
