#include "launcher/process/process_table.hpp"

#include "launcher/process/descriptors.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string>
#include <unistd.h>

namespace ddprun {
namespace {

// "pid (name) state parent group ...", where the name may hold anything, brackets too.
bool read_entry(pid_t pid, process_entry& entry) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  char text[512];
  const auto count = ::read(file.get(), text, sizeof(text) - 1);
  if (count <= 0) return false;
  text[count] = '\0';
  const char* name_end = std::strrchr(text, ')');
  char state = 0;
  if (name_end == nullptr ||
      std::sscanf(name_end + 1, " %c %d %d", &state, &entry.parent, &entry.group) != 3) {
    return false;
  }
  entry.pid = pid;
  entry.dead = state == 'Z' || state == 'X';
  return true;
}

}  // namespace

std::vector<process_entry> list_processes() {
  std::vector<process_entry> entries;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (!folder) return entries;
  while (const dirent* file = ::readdir(folder.get())) {
    const int pid = std::atoi(file->d_name);
    process_entry entry;
    if (pid > 0 && read_entry(pid, entry)) entries.push_back(entry);
  }
  return entries;
}

bool group_runs(pid_t group) {
  if (::kill(-group, 0) != 0 && errno == ESRCH) return false;
  const auto entries = list_processes();
  return std::any_of(entries.begin(), entries.end(), [group](const process_entry& entry) {
    return entry.group == group && !entry.dead;
  });
}

}  // namespace ddprun
