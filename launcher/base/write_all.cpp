#include "launcher/base/write_all.hpp"

#include <cerrno>
#include <unistd.h>

namespace ddprun::launcher {

int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = EIO;  // nothing was written, and no reason given
    if (count <= 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

}  // namespace ddprun::launcher
