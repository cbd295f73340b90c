#include "launcher/log/line_splitter.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/utf8.hpp"

#include <algorithm>

namespace ddprun::launcher {
namespace {

using kind = log::line_part::kind;

constexpr std::size_t block_bytes = 4096;  // stdio's buffer on a pipe; Python's is two of these

constexpr std::string_view cut_mark = " [ddprun: this line is too long, and cut here]\n";

}  // namespace

line_splitter::line_splitter(std::size_t limit, piece_handler handler)
    : limit_(limit), handler_(std::move(handler)) {
  DDPRUN_ASSERT(limit_ > 0);
}

void line_splitter::feed(std::string_view bytes, time_point now) {
  const std::size_t bytes_came = bytes.size();
  while (!bytes.empty()) {
    if (after_return_ && bytes.front() == '\n') {
      end_line({}, "\r\n");
      bytes.remove_prefix(1);
      continue;
    }
    if (after_return_ && bytes.front() != '\r') begin_state();
    const auto newline = bytes.find('\n');
    const auto line = bytes.substr(0, newline);
    const auto carriage = line.find('\r');
    if (carriage != std::string_view::npos) {
      append(line.substr(0, carriage));
      after_return_ = true;
      bytes.remove_prefix(carriage + 1);
    } else if (newline != std::string_view::npos) {
      end_line(bytes.substr(0, newline + 1), {});
      bytes.remove_prefix(newline + 1);
    } else {
      append(bytes);
      break;
    }
  }
  if (!has_unseen()) {
    due_.reset();
  } else if (!due_) {
    due_ = now + (bytes_came % block_bytes == 0 ? cut_line_delay : open_line_delay);
  }
}

void line_splitter::hand_on_open() {
  due_.reset();
  const auto whole = without_begun(state_);
  if (whole.size() <= seen_) return;
  const auto how = seen_ > 0 ? kind::goes_on : was_seen_ ? kind::replaces : kind::opens;
  const bool is_state = has_states_ || after_return_;
  handler_({how, whole.substr(seen_), {}, is_state});
  seen_ = whole.size();
  was_seen_ = true;
}

void line_splitter::finish() {
  after_return_ = false;
  if (!state_.empty()) hand_on("\n");
}

// The carriage return did not begin "\r\n".
void line_splitter::begin_state() {
  after_return_ = false;
  has_states_ = true;
  state_.clear();
  seen_ = 0;
}

void line_splitter::append(std::string_view text) {
  while (state_.size() + text.size() > limit_) {
    const auto room = limit_ - state_.size();
    state_.append(text.substr(0, room));
    text.remove_prefix(room);
    // An incomplete character goes to the next line as a whole.
    const auto whole = std::max(without_begun(state_).size(), seen_);
    const std::string begun = whole == 0 ? std::string() : state_.substr(whole);
    state_.resize(state_.size() - begun.size());
    hand_on(cut_mark);
    state_ = begun;
  }
  state_.append(text);
}

// `text` may include the line's end.
void line_splitter::end_line(std::string_view text, std::string_view ending) {
  // The fast path: the complete line is in one read, so it need not be copied.
  const bool is_whole = state_.empty() && !was_seen_ && ending.empty();
  if (is_whole && text.size() <= limit_ + 1) {
    handler_({kind::opens, text, text, false});
    return forget_line();
  }
  if (ending.empty()) {
    append(text.substr(0, text.size() - 1));
    ending = "\n";
  }
  hand_on(ending);
}

void line_splitter::hand_on(std::string_view ending) {
  state_.append(ending);
  const auto how = seen_ > 0 ? kind::goes_on : was_seen_ ? kind::replaces : kind::opens;
  handler_({how, std::string_view(state_).substr(seen_), state_, false});
  forget_line();
}

void line_splitter::forget_line() {
  state_.clear();
  seen_ = 0;
  was_seen_ = has_states_ = after_return_ = false;
  due_.reset();
}

}  // namespace ddprun::launcher
