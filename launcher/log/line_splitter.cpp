#include "launcher/log/line_splitter.hpp"

#include "rendezvous/base/error.hpp"

#include <algorithm>

namespace ddprun::launcher {

line_splitter::line_splitter(std::size_t limit, line_handler handler)
    : limit_(limit), handler_(std::move(handler)) {
  DDPRUN_ASSERT(limit_ > 0);
}

void line_splitter::feed(std::string_view bytes) {
  if (after_return_ && !bytes.empty()) {
    after_return_ = false;
    if (bytes.front() == '\n') {
      end_line({}, "\r\n");
      bytes.remove_prefix(1);
    } else if (!partial_.empty()) {
      end_line({}, "\n");
    }
  }
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    const auto line = bytes.substr(0, newline);
    const auto carriage = line.find('\r');
    if (carriage != std::string_view::npos && carriage + 1 < line.size()) {
      // A lone return. One at the start of a line has nothing before it to show.
      if (carriage > 0 || !partial_.empty()) end_line(line.substr(0, carriage), "\n");
      bytes.remove_prefix(carriage + 1);
    } else if (newline != std::string_view::npos) {
      const bool with_return = carriage != std::string_view::npos;
      end_line(with_return ? line.substr(0, carriage) : line, with_return ? "\r\n" : "\n");
      bytes.remove_prefix(newline + 1);
    } else {
      after_return_ = carriage != std::string_view::npos;
      append(line.substr(0, carriage));
      return;
    }
  }
}

void line_splitter::finish() {
  after_return_ = false;
  if (!partial_.empty()) end_line({}, "\n");
}

void line_splitter::append(std::string_view text) {
  while (partial_.size() + text.size() > limit_) {
    const auto room = limit_ - partial_.size();
    partial_.append(text.substr(0, room));
    text.remove_prefix(room);
    partial_ += '\n';
    handler_(partial_);
    partial_.clear();
  }
  partial_.append(text);
}

void line_splitter::end_line(std::string_view text, std::string_view ending) {
  append(text);
  partial_.append(ending);
  handler_(partial_);
  partial_.clear();
}

}  // namespace ddprun::launcher
