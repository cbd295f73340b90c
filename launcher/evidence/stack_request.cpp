#include "launcher/evidence/stack_request.hpp"

#include "launcher/evidence/proc_files.hpp"
#include "launcher/evidence/worker_file.hpp"
#include "launcher/process/process_table.hpp"

#include <cstdlib>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

// ddprun_stacks.py has the same name.
constexpr std::string_view file_name = "ddprun-stack";
constexpr std::size_t threads_max = 1024;

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
  file_ = open_worker_file(pid, file_name);
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
  // The signal is no longer pending, but the handler has not begun to write.
  if (text.empty() && !is_gone) return std::nullopt;
  return text;
}

}  // namespace ddprun::launcher::evidence
