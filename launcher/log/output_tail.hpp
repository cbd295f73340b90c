// An output_tail keeps the last bytes of a worker's standard error, for the record of its failure.
// Of a progress bar (a lone carriage return begins a line anew) it keeps the newest state, so that
// what was said before it is still there.
//
// Thread rule: one thread at a time. Memory: twice the limit at most.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::launcher {

// All that the record may carry.
inline constexpr std::size_t output_tail_bytes_max = tail_bytes_max;

class output_tail {
 public:
  void add(std::string_view bytes);

  // Valid UTF-8 of at most the limit, beginning at a line where one begins in it. Bytes that are
  // none become U+FFFD; a terminal's colours are left out.
  std::string text() const;

 private:
  void append(std::string_view bytes);
  void begin_line_anew();

  std::string bytes_;
  bool after_return_ = false;  // it may begin "\r\n"
  bool cut_ = false;           // bytes before these are gone
};

}  // namespace ddprun::launcher
