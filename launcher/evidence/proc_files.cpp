#include "launcher/evidence/proc_files.hpp"

#include "launcher/process/process_table.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <string_view>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

constexpr std::size_t file_bytes_max = 16 * 1024;
constexpr std::size_t looked_at_threads_max = 16 * 1024;

unsigned long long number_after(const std::string& text, std::string_view name) {
  const std::size_t at = text.find(name);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + name.size(), nullptr, 10);
}

}  // namespace

std::string proc_path(pid_t pid, const std::string& name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

std::string text_of_file(const std::string& path) {
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return {};
  std::string text(file_bytes_max, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + size, text.size() - size);
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

std::vector<std::string> numbers_in(const std::string& folder, std::size_t most) {
  std::vector<std::string> names;
  const auto close = [](DIR* opened) { ::closedir(opened); };
  const std::unique_ptr<DIR, decltype(close)> opened(::opendir(folder.c_str()), close);
  if (!opened) return names;
  while (names.size() < most) {
    const dirent* const entry = ::readdir(opened.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name.find_first_not_of("0123456789") == std::string_view::npos) names.emplace_back(name);
  }
  return names;
}

process_usage processor_usage_of(pid_t pid) {
  const std::optional<process_stat> found = stat_of(pid);
  return found ? process_usage{found->state, found->ticks} : process_usage{};
}

process_usage usage_of(pid_t pid) {
  process_usage found = processor_usage_of(pid);
  if (found.state == '?') return found;
  const std::string io = text_of_file(proc_path(pid, "io"));  // empty without permission
  found.bytes = number_after(io, "rchar: ") + number_after(io, "wchar: ");
  if (found.state == 'D') found.waits = kernel_wait_of(pid);
  return found;
}

std::optional<unsigned long long> sleeps_of(pid_t pid) {
  const std::string status = text_of_file(proc_path(pid, "status"));
  constexpr std::string_view name = "\nvoluntary_ctxt_switches:";
  if (status.find(name) == std::string::npos) return std::nullopt;
  return number_after(status, name);
}

unsigned long long ticks_of_threads(pid_t pid, std::string_view name) {
  unsigned long long ticks = 0;
  for (const std::string& thread : numbers_in(proc_path(pid, "task"), looked_at_threads_max)) {
    const std::string own_name = text_of_file(proc_path(pid, "task/" + thread + "/comm"));
    if (own_name != std::string(name) + "\n") continue;
    const auto number = static_cast<pid_t>(std::atoi(thread.c_str()));
    if (const auto found = thread_stat_of(pid, number)) ticks += found->ticks;
  }
  return ticks;
}

}  // namespace ddprun::launcher::evidence
