#include "launcher/log/output_tail.hpp"

#include "rendezvous/base/terminal_escapes.hpp"
#include "rendezvous/base/utf8.hpp"

namespace ddprun::launcher {

void output_tail::add(std::string_view bytes) {
  while (!bytes.empty()) {
    if (after_return_ && bytes.front() != '\r') {
      if (bytes.front() == '\n') {
        append("\r");
      } else {
        begin_line_anew();
      }
      after_return_ = false;
    }
    const auto text = bytes.substr(0, bytes.find('\r'));
    append(text);
    bytes.remove_prefix(text.size());
    if (bytes.empty()) return;
    after_return_ = true;
    bytes.remove_prefix(1);
  }
}

void output_tail::begin_line_anew() {
  const auto newline = bytes_.rfind('\n');
  bytes_.resize(newline == std::string::npos ? 0 : newline + 1);
}

void output_tail::append(std::string_view bytes) {
  if (bytes.size() > output_tail_bytes_max) {
    bytes.remove_prefix(bytes.size() - output_tail_bytes_max);
    cut_ = true;
  }
  if (bytes_.size() + bytes.size() > 2 * output_tail_bytes_max) {
    bytes_.erase(0, bytes_.size() - output_tail_bytes_max);
    cut_ = true;
  }
  bytes_.append(bytes);
}

std::string output_tail::text() const {
  const std::string whole = to_valid_utf8(without_escapes(bytes_));
  std::string_view text = last_of(whole, output_tail_bytes_max);
  if (cut_ || text.size() < whole.size()) {
    const auto newline = text.find('\n');
    if (newline != std::string_view::npos && newline + 1 < text.size()) {
      text.remove_prefix(newline + 1);
    }
  }
  return std::string(text);
}

}  // namespace ddprun::launcher
