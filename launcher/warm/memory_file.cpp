#include "launcher/warm/memory_file.hpp"

#include <cerrno>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::launcher::warm {

result<unique_fd> make_memory_file(const char* name, std::string_view text) {
  unique_fd file(::memfd_create(name, MFD_CLOEXEC));
  if (!file) return system_error(errno);
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return file;
}

std::uint64_t size_of(const unique_fd& file) {
  struct stat found {};
  return ::fstat(file.get(), &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
}

}  // namespace ddprun::launcher::warm
