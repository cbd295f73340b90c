#include "launcher/warm/memory_file.hpp"

#include "launcher/base/write_all.hpp"

#include <cerrno>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::launcher::warm {

result<unique_fd> make_memory_file(const char* name, std::string_view text) {
  unique_fd file(::memfd_create(name, MFD_CLOEXEC));
  if (!file) return system_error(errno);
  if (const int error = write_all(file.get(), text); error != 0) return system_error(error);
  return file;
}

std::uint64_t size_of(const unique_fd& file) {
  struct stat found {};
  return ::fstat(file.get(), &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
}

std::string text_of(const unique_fd& file) {
  std::string text(size_of(file), '\0');
  std::size_t read = 0;
  while (read < text.size()) {
    const ssize_t count =
        ::pread(file.get(), text.data() + read, text.size() - read, static_cast<off_t>(read));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    read += static_cast<std::size_t>(count);
  }
  text.resize(read);
  return text;
}

}  // namespace ddprun::launcher::warm
