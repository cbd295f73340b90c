#include "rendezvous/protocol/line_reader.hpp"

namespace ddprun::protocol {

void line_reader::append(std::string_view bytes) {
  if (begin_ == buffer_.size()) {
    // Swap instead of clear, so that ten thousand idle sessions hold no memory.
    if (begin_ != 0) std::string().swap(buffer_);
    begin_ = scanned_ = 0;
  } else if (begin_ != 0) {
    buffer_.erase(0, begin_);
    scanned_ -= begin_;
    begin_ = 0;
  }
  buffer_ += bytes;
}

std::optional<std::string_view> line_reader::next() {
  if (too_long_) return std::nullopt;
  const std::size_t newline = buffer_.find('\n', scanned_);
  if (newline == std::string::npos) {
    scanned_ = buffer_.size();
    // The newline, which has not arrived yet, counts too.
    too_long_ = buffer_.size() - begin_ >= bytes_max_;
    if (begin_ == buffer_.size() && begin_ != 0) {
      std::string().swap(buffer_);
      begin_ = scanned_ = 0;
    }
    return std::nullopt;
  }
  if (newline + 1 - begin_ > bytes_max_) {
    too_long_ = true;
    return std::nullopt;
  }
  std::string_view line(buffer_.data() + begin_, newline - begin_);
  begin_ = scanned_ = newline + 1;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace ddprun::protocol
