// Replies are the bytes that a TCPStore connection has still to be sent, in order.
//
// Small values are copied among the other bytes; from `shared_from_bytes` on a value is held as the
// shared buffer it is, so that one stored blob is not copied for each of its readers. Once
// `copied_bytes_max` stand there, values of any size but the smallest are held so: a megabyte of
// keys in one MULTI_GET must not become a hundred of copies.
//
// Ownership: shared values stay alive until they are consumed.
#pragma once

#include "rendezvous/core/store/key_value_store.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::protocol::tcpstore {

class replies {
 public:
  static constexpr std::size_t shared_from_bytes = 1024;
  static constexpr std::size_t copied_bytes_max = 1024 * 1024;
  static constexpr std::size_t always_copied_bytes = 64;
  // Memory kept for the next replies once all have been sent.
  static constexpr std::size_t kept_bytes_max = 4096;

  void add_byte(char value);
  void add_u32(std::uint32_t value);
  void add_i64(std::int64_t value);
  void add_string(std::string_view value);
  // Room for so many more bytes of strings: a long list is not moved as it grows.
  void reserve(std::size_t bytes) { plain_.reserve(plain_.size() + bytes); }
  // Null is written as the empty string.
  void add_value(const core::shared_bytes& value);
  // Whether a value of so many bytes, added now, is copied: then nobody need share it.
  bool copies(std::size_t bytes) const {
    return bytes < (plain_.size() < copied_bytes_max ? shared_from_bytes : always_copied_bytes);
  }

  bool empty() const { return bytes_left_ == 0; }
  std::size_t bytes_left() const { return bytes_left_; }
  // Bytes of memory that these replies take beside the shared values, which their store counts.
  std::size_t memory() const {
    return plain_.capacity() + shared_.capacity() * sizeof(shared_piece);
  }

  // All that is left, where it is one piece without a shared value, as most replies are; else
  // empty.
  std::string_view only_piece() const {
    if (first_shared_ != shared_.size()) return {};
    return std::string_view(plain_).substr(plain_sent_);
  }
  // Fills `pieces` with the next bytes in order and returns how many pieces were filled. They stay
  // valid until the next call of any other function here.
  std::size_t gather(std::span<std::string_view> pieces) const;
  // Takes `bytes` from the front: they have been sent.
  void consume(std::size_t bytes);
  void clear();

 private:
  // A shared value that comes after the first `after` bytes of `plain_`.
  struct shared_piece {
    std::size_t after;
    core::shared_bytes value;
  };
  void pop_piece();

  std::string plain_;
  std::vector<shared_piece> shared_;
  std::size_t plain_sent_ = 0;
  std::size_t first_shared_ = 0;  // index of the first in `shared_` that is not wholly sent
  std::size_t shared_sent_ = 0;   // bytes of it that are
  std::size_t bytes_left_ = 0;
};

}  // namespace ddprun::protocol::tcpstore
