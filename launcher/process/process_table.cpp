#include "launcher/process/process_table.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sstream>
#include <string>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

std::string read_file(pid_t pid, const std::string& name) {
  const std::string path = "/proc/" + std::to_string(pid) + "/" + name;
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char chunk[4096];
  while (file) {
    const auto count = ::read(file.get(), chunk, sizeof(chunk));
    if (count <= 0) break;
    text.append(chunk, static_cast<std::size_t>(count));
  }
  return text;
}

// "pid (name) state parent group ...", where the name may contain anything, parentheses too.
std::optional<process_stat> stat_in(const std::string& text) {
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  process_stat found;
  unsigned long long user_ticks = 0;
  unsigned long long system_ticks = 0;
  // utime and stime are fields 14 and 15, num_threads is field 20.
  const int count = std::sscanf(text.c_str() + name_end + 1,
                                " %c %d %d %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %*s %*s %*s "
                                "%*s %d",
                                &found.state, &found.parent, &found.group, &user_ticks,
                                &system_ticks, &found.threads);
  if (count != 6) return std::nullopt;
  found.ticks = user_ticks + system_ticks;
  return found;
}

bool read_entry(pid_t pid, process_entry& entry) {
  const std::optional<process_stat> found = stat_of(pid);
  if (!found) return false;
  // The main thread may have ended while others run.
  const bool is_dead = (found->state == 'Z' || found->state == 'X') && found->threads <= 1;
  entry = {pid, found->parent, found->group, is_dead};
  return true;
}

std::vector<pid_t> list_pids() {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (!folder) return pids;
  while (const dirent* file = ::readdir(folder.get())) {
    if (const int pid = std::atoi(file->d_name); pid > 0) pids.push_back(pid);
  }
  return pids;
}

}  // namespace

std::optional<process_stat> stat_of(pid_t pid) {
  return stat_in(read_file(pid, "stat"));
}

std::optional<process_stat> thread_stat_of(pid_t pid, pid_t thread) {
  return stat_in(read_file(pid, "task/" + std::to_string(thread) + "/stat"));
}

std::optional<process_stat> main_thread_stat_of(pid_t pid) {
  return thread_stat_of(pid, pid);
}

std::vector<process_entry> list_processes() {
  std::vector<process_entry> entries;
  for (const pid_t pid : list_pids()) {
    process_entry entry;
    if (read_entry(pid, entry)) entries.push_back(entry);
  }
  return entries;
}

std::vector<pid_t> processes_with(const std::string& entry) {
  std::vector<pid_t> found;
  for (const pid_t pid : list_pids()) {
    if (pid != ::getpid() && has_variable(pid, entry)) found.push_back(pid);
  }
  return found;
}

std::string process_name(pid_t pid) {
  std::string name = read_file(pid, "comm");
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

bool has_handler(pid_t pid, int signal) {
  const std::string text = read_file(pid, "status");
  const auto at = text.find("\nSigCgt:");
  if (at == std::string::npos) return false;
  const unsigned long long caught = std::strtoull(text.c_str() + at + 8, nullptr, 16);
  return (caught >> (signal - 1) & 1) != 0;
}

std::optional<bool> shows_variable(pid_t pid, const std::string& entry) {
  const std::string entries = read_file(pid, "environ");
  if (entries.empty()) return std::nullopt;
  // Entries end with a zero byte. With one in front, the first entry matches like the others.
  const std::string all = '\0' + entries + '\0';
  return all.find('\0' + entry + '\0') != std::string::npos;
}

bool has_variable(pid_t pid, const std::string& entry) {
  return shows_variable(pid, entry).value_or(false);
}

std::vector<pid_t> running_groups(const std::vector<pid_t>& groups) {
  std::vector<pid_t> candidates;
  for (const pid_t group : groups) {
    // kill(2) is cheap, and mostly spares the look at the whole table.
    if (::kill(-group, 0) == 0 || errno != ESRCH) candidates.push_back(group);
  }
  if (candidates.empty()) return candidates;
  std::vector<pid_t> running;
  for (const auto& entry : list_processes()) {
    const bool is_candidate =
        std::find(candidates.begin(), candidates.end(), entry.group) != candidates.end();
    const bool is_known = std::find(running.begin(), running.end(), entry.group) != running.end();
    if (!entry.dead && is_candidate && !is_known) running.push_back(entry.group);
  }
  return running;
}

// The kernel gives orphans to the main thread of a subreaper as long as that lives.
std::vector<pid_t> list_children() {
  const pid_t self = ::getpid();
  const std::string path = "task/" + std::to_string(self) + "/children";
  const std::string file = "/proc/" + std::to_string(self) + "/" + path;
  std::vector<pid_t> children;
  if (::access(file.c_str(), R_OK) != 0) {  // without CONFIG_PROC_CHILDREN
    for (const auto& entry : list_processes()) {
      if (entry.parent == self) children.push_back(entry.pid);
    }
    return children;
  }
  std::istringstream words(read_file(self, path.c_str()));
  for (pid_t pid = 0; words >> pid;)
    children.push_back(pid);
  return children;
}

bool is_dead(pid_t pid) {
  process_entry entry;
  return !read_entry(pid, entry) || entry.dead;
}

}  // namespace ddprun::launcher
