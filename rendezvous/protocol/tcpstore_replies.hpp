// Replies are the bytes still to be sent on a TCPStore connection, in order.
//
// Small values are copied among the other bytes. From `shared_from_bytes` on a value is held as a
// shared buffer, so that a stored blob is not copied for each reader. Once `copied_bytes_max` are
// copied, all values but the smallest are shared: one MULTI_GET with a megabyte of keys must not
// make a hundred megabytes of copies.
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
  // Memory that is not released after all replies have been sent.
  static constexpr std::size_t kept_bytes_max = 4096;

  void add_byte(char value);
  void add_u32(std::uint32_t value);
  void add_i64(std::int64_t value);
  void add_string(std::string_view value);
  // Reserves room for strings, so that a long list is not moved as it grows.
  void reserve(std::size_t bytes) { plain_.reserve(plain_.size() + bytes); }
  // Null is written as the empty string.
  void add_value(const core::shared_bytes& value);
  // True if a value of this size would be copied now, so it need not be shared.
  bool copies(std::size_t bytes) const {
    return bytes < (plain_.size() < copied_bytes_max ? shared_from_bytes : always_copied_bytes);
  }

  bool empty() const { return bytes_left_ == 0; }
  std::size_t bytes_left() const { return bytes_left_; }
  // The memory of these replies without the shared values, which their store counts.
  std::size_t memory() const {
    return plain_.capacity() + shared_.capacity() * sizeof(shared_piece);
  }

  // All remaining bytes if they are one piece without a shared value, as in most replies; otherwise
  // empty.
  std::string_view only_piece() const {
    if (first_shared_ != shared_.size()) return {};
    return std::string_view(plain_).substr(plain_sent_);
  }
  // Fills `pieces` with the next bytes in order and returns how many pieces were filled. They are
  // valid until the next call of any other function here.
  std::size_t gather(std::span<std::string_view> pieces) const;
  // Removes `bytes` from the front, which were sent.
  void consume(std::size_t bytes);
  void clear();

 private:
  // A shared value, to be sent after the first `after` bytes of `plain_`.
  struct shared_piece {
    std::size_t after;
    core::shared_bytes value;
  };
  void pop_piece();

  std::string plain_;
  std::vector<shared_piece> shared_;
  std::size_t plain_sent_ = 0;
  std::size_t first_shared_ = 0;  // index of the first in `shared_` that is not completely sent
  std::size_t shared_sent_ = 0;   // bytes of it that were sent
  std::size_t bytes_left_ = 0;
};

}  // namespace ddprun::protocol::tcpstore
