#include "launcher/evidence/stack_request.hpp"

#include "launcher/evidence/proc_files.hpp"
#include "launcher/process/process_table.hpp"

#include <array>
#include <cstdlib>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

// As ddprun_stacks.py names it; what is linked nowhere the kernel calls deleted.
constexpr std::string_view file_name = "/memfd:ddprun-stack (deleted)";
constexpr std::size_t descriptors_max = 8192;
constexpr std::size_t threads_max = 1024;

// It has no name, and only files in memory have seals.
bool is_memory_file(int file) {
  struct stat found {};
  return ::fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_nlink == 0 &&
         ::fcntl(file, F_GET_SEALS) >= 0;
}

unique_fd stack_file_of(pid_t pid) {
  for (const std::string& number : numbers_in(proc_path(pid, "fd"), descriptors_max)) {
    const std::string path = proc_path(pid, "fd/" + number);
    std::array<char, 64> target;
    const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
    if (size < 0 || std::string_view(target.data(), static_cast<std::size_t>(size)) != file_name)
      continue;
    unique_fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    // The worker may have put another file there meanwhile, which must not be emptied.
    if (file && is_memory_file(file.get())) return file;
  }
  return {};
}

bool has_signal(const std::string& status, std::string_view field) {
  const std::size_t at = status.find(field);
  if (at == std::string::npos) return false;
  const unsigned long long mask = std::strtoull(status.c_str() + at + field.size(), nullptr, 16);
  return (mask >> (stack_signal - 1) & 1) != 0;
}

}  // namespace

std::set<pid_t> stack_request::handling() const {
  std::set<pid_t> threads;
  for (const std::string& number : numbers_in(proc_path(pid_, "task"), threads_max)) {
    if (has_signal(text_of_file(proc_path(pid_, "task/" + number + "/status")), "\nSigBlk:"))
      threads.insert(static_cast<pid_t>(std::atoi(number.c_str())));
  }
  return threads;
}

bool stack_request::send(pid_t pid, int pidfd) {
  pid_ = pid;
  if (!has_handler(pid, stack_signal)) return false;
  file_ = stack_file_of(pid);
  if (!file_ || ::ftruncate(file_.get(), 0) != 0) return false;
  blocking_ = handling();
  return ::syscall(SYS_pidfd_send_signal, pidfd, stack_signal, nullptr, 0) == 0;
}

std::optional<std::string> stack_request::answer() const {
  const std::string status = text_of_file(proc_path(pid_, "status"));
  const bool is_gone = status.empty() || is_dead(pid_);
  if (!is_gone) {
    if (has_signal(status, "\nShdPnd:")) return std::nullopt;
    for (const pid_t thread : handling()) {
      if (!blocking_.contains(thread)) return std::nullopt;
    }
  }
  std::string text(stack_bytes_max, '\0');
  const ssize_t size = ::pread(file_.get(), text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  // Between the two the handler is about to begin.
  if (text.empty() && !is_gone) return std::nullopt;
  return text;
}

}  // namespace ddprun::launcher::evidence
