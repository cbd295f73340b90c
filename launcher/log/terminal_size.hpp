// The size of a terminal, in characters; 0: it does not say.
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

// None: the descriptor is no terminal.
inline std::optional<terminal_size> size_of_terminal(int fd) {
  winsize size{};
  if (::isatty(fd) != 1) return {};
  ::ioctl(fd, TIOCGWINSZ, &size);
  return terminal_size{size.ws_row, size.ws_col};
}

// Of either end of a pty. Of another descriptor nothing happens.
inline void resize_terminal(int fd, terminal_size to) {
  const winsize size{to.rows, to.columns, 0, 0};
  ::ioctl(fd, TIOCSWINSZ, &size);
}

// What a line has left behind its prefix.
inline terminal_size beside_prefix(terminal_size whole, std::string_view prefix) {
  if (whole.columns > prefix.size()) {
    whole.columns = static_cast<std::uint16_t>(whole.columns - prefix.size());
  }
  return whole;
}

}  // namespace ddprun::launcher
