#include "launcher/process/cgroup.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

// One of somebody who makes them without end must not take us with it.
constexpr int depth_max = 16;

// "/user.slice/..."; of version 2, whose line begins with 0.
std::optional<std::string> own_place(std::istream& cgroups) {
  for (std::string line; std::getline(cgroups, line);) {
    if (!line.starts_with("0::/")) continue;
    // Outside the root of our namespace: no path leads there.
    if (line.starts_with("0::/..")) return std::nullopt;
    return line.substr(3);
  }
  return std::nullopt;
}

// "4:cpu,memory:/jobs/7", of version 1.
std::optional<std::string> own_memory_place(std::istream& cgroups) {
  for (std::string line; std::getline(cgroups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers.find(",memory,") != std::string::npos) return line.substr(second + 1);
  }
  return std::nullopt;
}

// Spaces and their like are written as "\040".
std::string unescaped(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 3 < text.size()) {
      result.push_back(static_cast<char>(std::strtol(text.substr(at + 1, 3).c_str(), nullptr, 8)));
      at += 3;
    } else {
      result.push_back(text[at]);
    }
  }
  return result;
}

// What is left of `place` below `root`; none when it is not below it.
std::optional<std::string> below(const std::string& place, const std::string& root) {
  if (root == "/") return place == "/" ? std::string() : place;
  if (place == root) return std::string();
  if (!place.starts_with(root + "/")) return std::nullopt;
  return place.substr(root.size());
}

// "36 35 98:0 /root /point options shared:1 - cgroup2 source options"
std::optional<std::string> folder_below_mount(std::istream& mounts, const std::string& place,
                                              std::string_view type, std::string_view option) {
  for (std::string line; std::getline(mounts, line);) {
    const std::size_t at = line.find(type);
    if (at == std::string::npos || line.find(option, at) == std::string::npos) continue;
    std::istringstream words(line);
    std::string skipped, root, point;
    if (!(words >> skipped >> skipped >> skipped >> root >> point)) continue;
    if (const auto rest = below(place, unescaped(root))) return unescaped(point) + *rest;
  }
  return std::nullopt;
}

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
  // 0 stands for one that our namespace does not know.
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

// Those of agents that were killed together with their guardians. In another namespace of processes
// its agent may live: then it starts its workers outside.
void remove_abandoned(const std::string& folder) {
  for (const std::string& path : folders_in(folder)) {
    const std::string name = path.substr(folder.size() + 1);
    if (!name.starts_with(name_begin)) continue;
    const int agent = std::atoi(name.c_str() + name_begin.size());
    if (agent > 1 && ::kill(agent, 0) != 0 && errno == ESRCH) remove_cgroup(path);
  }
}

}  // namespace

std::optional<std::string> own_cgroup_folder(std::istream& cgroups, std::istream& mounts) {
  const auto place = own_place(cgroups);
  return place ? folder_below_mount(mounts, *place, " - cgroup2 ", "") : std::nullopt;
}

std::optional<std::string> own_memory_cgroup_folder(std::istream& cgroups, std::istream& mounts) {
  const auto place = own_memory_place(cgroups);
  return place ? folder_below_mount(mounts, *place, " - cgroup ", ",memory") : std::nullopt;
}

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
