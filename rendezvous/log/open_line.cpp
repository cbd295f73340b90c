#include "rendezvous/log/open_line.hpp"

namespace ddprun::log {
namespace {

// Moves to the first column and erases the line.
constexpr std::string_view erase_line = "\r\x1b[K";

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \r") == std::string_view::npos;
}

bool is_newline(std::string_view text) {
  return text == "\n" || text == "\r\n";
}

}  // namespace

void open_line::end(std::string& to) {
  if (is_open_) to.append(is_passing_ ? erase_line : "\n");
  is_open_ = false;
}

void open_line::append_lines(std::string& to, std::string_view lines) {
  end(to);
  to.append(lines);
}

void open_line::append(std::string& to, const line_part& part) {
  if (part.text.empty()) return;
  using kind = line_part::kind;
  const bool is_mine = is_open_ && whose_ == part.whose;
  const bool goes_on = part.how == kind::goes_on;
  if (part.is_state && !goes_on && is_blank(part.text)) {
    // A bar has erased itself.
    if (!is_mine || !redraws_) return;
    to.append(erase_line);
    is_open_ = false;
    return;
  }
  const bool stays = is_mine && (goes_on || part.how == kind::passes);
  const bool is_redrawn = is_mine && redraws_ && part.how == kind::replaces;
  if (is_redrawn) {
    to.append(erase_line);
  } else if (!stays) {
    if (goes_on && is_newline(part.text)) return;  // another stream has already ended this line
    end(to);
  }
  if (!stays && part.how != kind::passes && part.how != kind::begins) to.append(part.prefix);
  to.append(part.text);
  is_open_ = part.text.back() != '\n';
  is_passing_ = part.is_passing && redraws_;
  whose_ = part.whose;
  if (is_open_ && part.is_state && !redraws_) end(to);
}

}  // namespace ddprun::log
