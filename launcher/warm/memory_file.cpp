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

}  // namespace ddprun::launcher::warm
