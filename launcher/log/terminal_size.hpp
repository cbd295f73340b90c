// The size of a terminal, in characters; 0: unknown.
//
// Thread rule: plain values; a call each to the system.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace ddprun::launcher {

struct terminal_size {
  std::uint16_t rows = 0;
  std::uint16_t columns = 0;

  bool operator==(const terminal_size&) const = default;
};

// None: the descriptor is not a terminal.
inline std::optional<terminal_size> size_of_terminal(int fd) {
  winsize size{};
  if (::isatty(fd) != 1) return {};
  ::ioctl(fd, TIOCGWINSZ, &size);
  return terminal_size{size.ws_row, size.ws_col};
}

// Works on both ends of a pty, and does nothing on other descriptors.
inline void resize_terminal(int fd, terminal_size to) {
  const winsize size{to.rows, to.columns, 0, 0};
  ::ioctl(fd, TIOCSWINSZ, &size);
}

// The size that remains to the right of a prefix.
inline terminal_size beside_prefix(terminal_size whole, std::string_view prefix) {
  if (whole.columns > prefix.size()) {
    whole.columns = static_cast<std::uint16_t>(whole.columns - prefix.size());
  }
  return whole;
}

}  // namespace ddprun::launcher
