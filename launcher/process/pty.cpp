#include "launcher/process/pty.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <termios.h>

namespace ddprun::launcher {

result<pipe_ends> make_pty(terminal_size size) {
  constexpr int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
  pipe_ends ends;
  ends.read.reset(::posix_openpt(flags));
  if (!ends.read || ::unlockpt(ends.read.get()) != 0) return last_system_error();
  // Opened through the master and not by name, because /dev/pts may be another mount here.
  ends.write.reset(::ioctl(ends.read.get(), TIOCGPTPEER, flags));
  if (!ends.write) return last_system_error();
  termios modes{};
  if (::tcgetattr(ends.write.get(), &modes) != 0) return last_system_error();
  modes.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  modes.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  if (::tcsetattr(ends.write.get(), TCSANOW, &modes) != 0) return last_system_error();
  resize_terminal(ends.write.get(), size);
  return ends;
}

}  // namespace ddprun::launcher
