// A line reader cuts a stream of bytes into lines, and keeps no more than one unfinished line.
//
// Use: append what was read, then call `next` until it gives none; then look at `too_long`. An idle
// reader holds no memory.
//
// Ownership: a line given by `next` is valid until the next call of
// either.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::protocol {

class line_reader {
 public:
  explicit line_reader(std::size_t bytes_max = line_bytes_max) : bytes_max_(bytes_max) {}

  // Of lines from the next on; one that has begun included.
  void set_bytes_max(std::size_t bytes) { bytes_max_ = bytes; }

  void append(std::string_view bytes);

  // The next whole line, without its "\n" or "\r\n". None: more bytes are needed, or `too_long`.
  std::optional<std::string_view> next();

  // A line, with its newline, is over the limit: the stream cannot be read on.
  bool too_long() const { return too_long_; }

  // Bytes of memory that it takes.
  std::size_t memory() const {
    return buffer_.capacity() > std::string().capacity() ? buffer_.capacity() : 0;
  }

  // Bytes of the line that has begun.
  std::string_view unfinished() const { return std::string_view(buffer_).substr(begin_); }

 private:
  std::size_t bytes_max_;
  std::string buffer_;
  std::size_t begin_ = 0;    // of the first line not yet given
  std::size_t scanned_ = 0;  // before here, from begin_, is no newline
  bool too_long_ = false;
};

}  // namespace ddprun::protocol
