#include "rendezvous/protocol/tcpstore_replies.hpp"

#include "rendezvous/protocol/tcpstore.hpp"

#include <algorithm>

namespace ddprun::protocol::tcpstore {

void replies::add_byte(char value) {
  plain_.push_back(value);
  ++bytes_left_;
}

void replies::add_u32(std::uint32_t value) {
  append_u32(plain_, value);
  bytes_left_ += sizeof value;
}

void replies::add_i64(std::int64_t value) {
  append_i64(plain_, value);
  bytes_left_ += sizeof value;
}

void replies::add_string(std::string_view value) {
  append_string(plain_, value);
  bytes_left_ += sizeof(std::int64_t) + value.size();
}

void replies::add_value(const core::shared_bytes& value) {
  if (!value || copies(value->size())) {
    add_string(value ? std::string_view(*value) : std::string_view());
    return;
  }
  add_i64(static_cast<std::int64_t>(value->size()));
  shared_.push_back({plain_.size(), value});
  bytes_left_ += value->size();
}

std::size_t replies::gather(std::span<std::string_view> pieces) const {
  std::size_t filled = 0;
  std::size_t plain_at = plain_sent_;
  std::size_t shared_at = shared_sent_;
  for (std::size_t index = first_shared_; filled < pieces.size(); ++index) {
    const bool more = index < shared_.size();
    const std::size_t plain_end = more ? shared_[index].after : plain_.size();
    if (plain_end > plain_at) {
      pieces[filled++] = std::string_view(plain_).substr(plain_at, plain_end - plain_at);
      plain_at = plain_end;
    }
    if (!more) break;
    if (filled == pieces.size()) break;
    pieces[filled++] = std::string_view(*shared_[index].value).substr(shared_at);
    shared_at = 0;
  }
  return filled;
}

void replies::consume(std::size_t bytes) {
  DDPRUN_ASSERT(bytes <= bytes_left_);
  if (bytes == bytes_left_) return clear();
  bytes_left_ -= bytes;
  while (bytes != 0) {
    const bool more = first_shared_ < shared_.size();
    const std::size_t plain_end = more ? shared_[first_shared_].after : plain_.size();
    const std::size_t plain = std::min(bytes, plain_end - plain_sent_);
    plain_sent_ += plain;
    bytes -= plain;
    if (!more || bytes == 0) break;
    const std::size_t left = shared_[first_shared_].value->size() - shared_sent_;
    if (bytes < left) {
      shared_sent_ += bytes;
      break;
    }
    bytes -= left;
    pop_piece();
  }
}

void replies::clear() {
  plain_.clear();
  shared_.clear();
  if (plain_.capacity() > kept_bytes_max) std::string().swap(plain_);
  if (shared_.capacity() > kept_bytes_max / sizeof(shared_piece)) {
    std::vector<shared_piece>().swap(shared_);
  }
  bytes_left_ = plain_sent_ = first_shared_ = shared_sent_ = 0;
}

void replies::pop_piece() {
  shared_[first_shared_].value.reset();
  ++first_shared_;
  shared_sent_ = 0;
}

}  // namespace ddprun::protocol::tcpstore
