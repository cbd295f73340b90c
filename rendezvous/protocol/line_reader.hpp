// A line reader cuts a stream of bytes into lines, and holds no more than one unfinished line.
//
// Usage: append what was read, call `next` until it returns nothing, then check `too_long`. An idle
// reader holds no memory.
//
// Ownership: a line from `next` is valid until the next call of `next` or `append`.
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

  // Applies from the next line on, and to an unfinished one.
  void set_bytes_max(std::size_t bytes) { bytes_max_ = bytes; }

  void append(std::string_view bytes);

  // The next complete line, without its "
  // " or "\r
  // ". Empty: more bytes are needed, or `too_long`.
  std::optional<std::string_view> next();

  // True if a line with its newline exceeds the limit: the rest of the stream is unreadable.
  bool too_long() const { return too_long_; }

  // The memory that it holds.
  std::size_t memory() const {
    return buffer_.capacity() > std::string().capacity() ? buffer_.capacity() : 0;
  }

  // The bytes of the unfinished line.
  std::string_view unfinished() const { return std::string_view(buffer_).substr(begin_); }

 private:
  std::size_t bytes_max_;
  std::string buffer_;
  std::size_t begin_ = 0;    // start of the first line not returned yet
  std::size_t scanned_ = 0;  // no newline between begin_ and here
  bool too_long_ = false;
};

}  // namespace ddprun::protocol
