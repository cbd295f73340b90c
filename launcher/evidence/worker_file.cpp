#include "launcher/evidence/worker_file.hpp"

#include "launcher/evidence/proc_files.hpp"

#include <array>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

constexpr std::size_t descriptors_max = 8192;

// A memory file has no link, and only memory files have seals.
bool is_memory_file(int file) {
  struct stat found {};
  return ::fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_nlink == 0 &&
         ::fcntl(file, F_GET_SEALS) >= 0;
}

}  // namespace

unique_fd open_worker_file(pid_t pid, std::string_view name) {
  // The kernel marks a file without a link as deleted.
  const std::string wanted = "/memfd:" + std::string(name) + " (deleted)";
  for (const std::string& number : numbers_in(proc_path(pid, "fd"), descriptors_max)) {
    const std::string path = proc_path(pid, "fd/" + number);
    std::array<char, 64> target;
    const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
    if (size < 0 || std::string_view(target.data(), static_cast<std::size_t>(size)) != wanted)
      continue;
    unique_fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    // The worker may have replaced the descriptor since; another file must not be emptied.
    if (file && is_memory_file(file.get())) return file;
  }
  return {};
}

}  // namespace ddprun::launcher::evidence
