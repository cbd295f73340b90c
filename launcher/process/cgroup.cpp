#include "launcher/process/cgroup.hpp"

#include "launcher/base/cgroup_folders.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

// Limits the recursion if a worker nests cgroups without end.
constexpr int depth_max = 16;

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (!folder) return found;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") found.push_back(path + "/" + name);
  }
  return found;
}

void list(const std::string& path, int depth, std::vector<pid_t>& found) {
  std::ifstream words(path + "/cgroup.procs");
  // PID 0 stands for a process of another namespace.
  for (pid_t pid = 0; words >> pid;) {
    if (pid > 1) found.push_back(pid);
  }
  if (depth == depth_max) return;
  for (const std::string& folder : folders_in(path))
    list(folder, depth + 1, found);
}

void remove(const std::string& path, int depth) {
  if (::rmdir(path.c_str()) == 0) return;
  if (depth < depth_max) {
    for (const std::string& folder : folders_in(path))
      remove(folder, depth + 1);
  }
  ::rmdir(path.c_str());
}

constexpr std::string_view name_begin = "ddprun-";

// Removes the cgroups of agents that were killed together with their guardians. An agent in another
// PID namespace may still live; it then starts its workers outside.
void remove_abandoned(const std::string& folder) {
  for (const std::string& path : folders_in(folder)) {
    const std::string name = path.substr(folder.size() + 1);
    if (!name.starts_with(name_begin)) continue;
    const int agent = std::atoi(name.c_str() + name_begin.size());
    if (agent > 1 && ::kill(agent, 0) != 0 && errno == ESRCH) remove_cgroup(path);
  }
}

}  // namespace

std::optional<cgroup> cgroup::make() {
  std::ifstream cgroups("/proc/self/cgroup"), mounts("/proc/self/mountinfo");
  const auto own = own_cgroup_folder(cgroups, mounts);
  if (!own) return std::nullopt;
  remove_abandoned(*own);
  const std::string path = *own + "/" + std::string(name_begin) + std::to_string(::getpid());
  if (::mkdir(path.c_str(), 0755) != 0) return std::nullopt;
  unique_fd folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder) return cgroup(path, std::move(folder));
  ::rmdir(path.c_str());
  return std::nullopt;
}

cgroup::~cgroup() {
  if (folder_) remove_cgroup(path_);
}

std::vector<pid_t> processes_in_cgroup(const std::string& path) {
  std::vector<pid_t> found;
  list(path, 0, found);
  return found;
}

void remove_cgroup(const std::string& path) {
  remove(path, 0);
}

}  // namespace ddprun::launcher
