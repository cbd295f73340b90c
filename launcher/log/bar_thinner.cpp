#include "launcher/log/bar_thinner.hpp"

#include "launcher/log/line_splitter.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher {

namespace {

constexpr std::size_t look_bytes = 4096;

}  // namespace

std::string_view bar_thinner::feed(std::string_view bytes, time_point now) {
  const bool holds = is_held_ || returns_ > 0;
  if (is_binary_ && !holds) return bytes;
  const bool has_return = bytes.find('\r') != std::string_view::npos;
  // Search for NUL in everything that is examined anyway, and otherwise where it costs little.
  const auto looked_at = has_return || holds ? bytes : bytes.substr(0, look_bytes);
  is_binary_ = is_binary_ || looked_at.find('\0') != std::string_view::npos;
  if (!holds && (is_binary_ || !has_return)) return bytes;
  out_.clear();
  if (is_binary_) {
    let_go();
    out_.append(std::exchange(returns_, 0), '\r');
    return out_.append(bytes);
  }
  while (!bytes.empty()) {
    const std::size_t returns = std::min(bytes.find_first_not_of('\r'), bytes.size());
    returns_ += returns;
    bytes.remove_prefix(returns);
    if (bytes.empty()) break;
    if (returns_ > 0 && bytes.front() != '\n') {
      held_.assign(std::exchange(returns_, 0), '\r');
      is_held_ = true;
    }
    const std::string_view text = bytes.substr(0, bytes.find('\r'));
    take(text);
    bytes.remove_prefix(text.size());
  }
  if (!is_held_) {
    due_.reset();
  } else if (!due_) {
    due_ = now + open_line_delay;
  }
  return out_;
}

// `text` has no carriage return.
void bar_thinner::take(std::string_view text) {
  const std::size_t newline = text.find('\n');
  if (is_held_ && newline == std::string_view::npos && held_.size() < state_bytes_max) {
    held_.append(text);
    return;
  }
  let_go();
  out_.append(std::exchange(returns_, 0), '\r').append(text);
}

void bar_thinner::let_go() {
  out_.append(held_);
  held_.clear();
  is_held_ = false;
  due_.reset();
}

std::string_view bar_thinner::take_held() {
  out_.clear();
  let_go();
  return out_;
}

std::string_view bar_thinner::finish() {
  out_.clear();
  let_go();
  return out_.append(std::exchange(returns_, 0), '\r');
}

}  // namespace ddprun::launcher
