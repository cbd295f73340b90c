#include "launcher/evidence/call_watch.hpp"

#include "launcher/evidence/worker_file.hpp"
#include "launcher/process/process_table.hpp"

#include <optional>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

std::optional<off_t> bytes_in(const unique_fd& file) {
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return std::nullopt;
  return found.st_size;
}

}  // namespace

call_watch::answer call_watch::look(const std::map<pid_t, unique_fd>& workers) {
  answer found;
  std::set<pid_t> back;
  std::erase_if(asked_, [&](const auto& one) {
    // An added byte means that the main thread is back in the interpreter.
    const auto& [pid, asked] = one;
    const bool is_held = bytes_in(asked.file) == asked.bytes;
    if (!is_held) back.insert(pid);
    return !is_held || !workers.contains(pid);
  });
  for (const auto& [pid, asked] : asked_)
    found.held.insert(pid);
  found.asked = found.held;
  for (const auto& [pid, process] : workers) {
    // A worker that came back just now is asked at the next look, if it still spins then.
    if (found.held.contains(pid) || back.contains(pid)) continue;
    if (!process || !has_handler(pid, return_signal)) continue;
    question next{open_worker_file(pid, "ddprun-returns"), 0};
    const auto bytes = next.file ? bytes_in(next.file) : std::nullopt;
    if (!bytes) continue;
    next.bytes = *bytes;
    if (::syscall(SYS_pidfd_send_signal, process.get(), return_signal, nullptr, 0) != 0) continue;
    asked_[pid] = std::move(next);
    found.asked.insert(pid);
  }
  return found;
}

}  // namespace ddprun::launcher::evidence
