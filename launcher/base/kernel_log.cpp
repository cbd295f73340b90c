#include "launcher/base/kernel_log.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

constexpr std::size_t record_bytes_max = 8192;  // the kernel's own limit

// The PID namespace in which the log numbers processes: PROC_PID_INIT_INO in the kernel's sources.
constexpr ino_t first_pid_namespace = 0xEFFFFFFC;

}  // namespace

kernel_log::kernel_log(const std::string& file)
    : file_(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (file_ && ::lseek(file_.get(), 0, SEEK_END) < 0) file_.reset();
}

void kernel_log::skip() {
  unread_.clear();
  if (file_) ::lseek(file_.get(), 0, SEEK_END);
}

// A record is "PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT"; lines with a leading blank may follow,
// which name devices (Documentation/ABI/testing/dev-kmsg in the kernel). Each read returns one
// record.
std::optional<std::string> kernel_log::next() {
  std::array<char, record_bytes_max> bytes{};
  while (file_) {
    const std::size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      const std::size_t text = line.find(';');
      if (line.starts_with(' ') || text == std::string::npos) continue;
      return line.substr(text + 1);
    }
    if (unread_.size() > record_bytes_max) unread_.clear();  // it is not a record
    const ssize_t size = ::read(file_.get(), bytes.data(), bytes.size());
    if (size < 0 && (errno == EPIPE || errno == EINTR)) continue;  // some were overwritten
    if (size <= 0) break;
    unread_.append(bytes.data(), static_cast<std::size_t>(size));
  }
  return std::nullopt;
}

bool has_process_numbers_of_kernel_log() {
  struct stat space {};
  return ::stat("/proc/self/ns/pid", &space) == 0 && space.st_ino == first_pid_namespace;
}

}  // namespace ddprun::launcher
