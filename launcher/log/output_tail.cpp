#include "launcher/log/output_tail.hpp"

#include "launcher/base/rank_mark.hpp"
#include "rendezvous/base/terminal_escapes.hpp"
#include "rendezvous/base/utf8.hpp"

#include <algorithm>

namespace ddprun::launcher {
namespace {

// A coloured line may be any.
bool may_be_frame(std::string_view line) {
  line = without_rank(line);
  return line.starts_with("frame #") || line.starts_with("  File ") || line.starts_with('\x1b');
}

}  // namespace

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
  bytes_.resize(line_begin_);
}

void output_tail::append(std::string_view bytes) {
  if (bytes.size() > output_tail_bytes_max && !may_have_frames(bytes)) {
    bytes.remove_prefix(bytes.size() - output_tail_bytes_max);
    cut_ = true;
  }
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size() - 1);
    const std::string_view piece = bytes.substr(0, end + 1);
    bytes.remove_prefix(piece.size());
    bytes_.append(piece);
    if (piece.ends_with('\n')) end_line();
    cut_front();
  }
}

// Most output has no frames, and then the expensive search for them is skipped.
bool output_tail::may_have_frames(std::string_view bytes) const {
  if (stack_.is_within() || !library_run_.empty()) return true;
  if (line_begin_ < bytes_.size()) {
    const char first = bytes_[line_begin_];
    if (first == 'f' || first == ' ' || first == '[') return true;
  }
  while (!may_be_frame(bytes)) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) return false;
    bytes.remove_prefix(end + 1);
  }
  return true;
}

// The last line is complete now.
void output_tail::end_line() {
  std::string_view line = std::string_view(bytes_).substr(line_begin_);
  line.remove_suffix(1);
  std::string plain;  // Python 3.13 colours tracebacks on a terminal
  if (line.find('\x1b') != std::string_view::npos) line = plain = without_escapes(line);
  const bool is_kept = stack_.take(line) == stack_frames::what::keep;
  const bool is_library = library_.take(line);
  if (!is_kept) bytes_.resize(line_begin_);
  bytes_.insert(line_begin_, stack_.take_left_out());
  if (!is_library) {
    end_library_run();
  } else if (library_.has_begun()) {
    library_run_.push_back(line_begin_);
  }
  line_begin_ = bytes_.size();
  shorten_library_run();
}

void output_tail::shorten_library_run() {
  if (library_run_.size() <= library_frames_kept) return;
  const std::size_t size = library_run_[1] - library_run_[0];
  bytes_.erase(library_run_[0], size);
  library_run_.erase(library_run_.begin());
  for (std::size_t& begin : library_run_)
    begin -= size;
  line_begin_ -= size;
  ++library_left_out_;
}

void output_tail::end_library_run() {
  const std::string note = library_note();
  if (!note.empty()) bytes_.insert(library_run_.front(), note);
  library_run_.clear();
  library_left_out_ = 0;
}

// In the style of Python's "[Previous line repeated 996 more times]".
std::string output_tail::library_note() const {
  if (library_left_out_ == 0 || library_run_.empty()) return {};
  return "  [" + std::to_string(library_left_out_) +
         (library_left_out_ == 1 ? " frame" : " frames") + " of installed packages left out]\n";
}

void output_tail::cut_front() {
  if (bytes_.size() <= 2 * output_tail_bytes_max) return;
  const std::size_t beyond = bytes_.size() - output_tail_bytes_max;
  bytes_.erase(0, beyond);
  line_begin_ -= std::min(line_begin_, beyond);
  if (!library_run_.empty() && library_run_.front() < beyond) {
    library_run_.clear();
    library_left_out_ = 0;
  }
  for (std::size_t& begin : library_run_)
    begin -= beyond;
  cut_ = true;
}

std::string output_tail::text() const {
  std::string with_notes = bytes_;
  with_notes.insert(line_begin_, stack_.left_out());
  if (!library_run_.empty()) with_notes.insert(library_run_.front(), library_note());
  const std::string whole = to_valid_utf8(without_escapes(with_notes));
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
