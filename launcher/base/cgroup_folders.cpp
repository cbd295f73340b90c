#include "launcher/base/cgroup_folders.hpp"

#include "launcher/base/text.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace ddprun::launcher {
namespace {

struct cgroup_mount {
  std::string root;   // the mounted part of the hierarchy
  std::string point;  // where
};

bool names(std::string_view list, std::string_view wanted) {
  const auto parts = split(list, ',');
  return std::find(parts.begin(), parts.end(), wanted) != parts.end();
}

// Reads "0::/user.slice/..." (version 2) or "4:cpu,memory:/jobs/7" (version 1).
std::optional<std::string> own_place(std::istream& cgroups, std::string_view controller) {
  for (std::string line; std::getline(cgroups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_wanted =
        controller.empty() ? line.starts_with("0::/") : names(controllers, controller);
    if (is_wanted && line.compare(second + 1, 1, "/") == 0) return line.substr(second + 1);
  }
  return std::nullopt;
}

// Spaces and similar characters are written as "\040".
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

// Reads "36 35 98:0 /root /point options shared:1 - cgroup2 source options".
std::vector<cgroup_mount> read_mounts(std::istream& mounts, std::string_view controller) {
  std::vector<cgroup_mount> found;
  for (std::string line; std::getline(mounts, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash)), behind(line.substr(dash + 3));
    std::string skipped, root, point, type, source, options;
    if (!(behind >> type >> source >> options)) continue;
    if (!(before >> skipped >> skipped >> skipped >> root >> point)) continue;
    const bool is_wanted =
        controller.empty() ? type == "cgroup2" : type == "cgroup" && names(options, controller);
    if (is_wanted) found.push_back({unescaped(root), unescaped(point)});
  }
  return found;
}

// The rest of `place` below `root`; empty if it is not below, or outside our namespace.
std::optional<std::string> below(const std::string& place, const std::string& root) {
  if (place == "/.." || place.starts_with("/../")) return std::nullopt;
  if (root == "/") return place == "/" ? std::string() : place;
  if (place == root) return std::string();
  if (!place.starts_with(root + "/")) return std::nullopt;
  return place.substr(root.size());
}

}  // namespace

std::optional<std::string> own_cgroup_folder(std::istream& cgroups, std::istream& mounts,
                                             std::string_view controller) {
  const auto place = own_place(cgroups, controller);
  if (!place) return std::nullopt;
  for (const cgroup_mount& mount : read_mounts(mounts, controller)) {
    if (const auto rest = below(*place, mount.root)) return mount.point + *rest;
  }
  return std::nullopt;
}

std::vector<std::string> own_cgroup_folders(const std::string& root, std::string_view controller) {
  std::ifstream cgroups(root + "/proc/self/cgroup"), mounts(root + "/proc/self/mountinfo");
  const auto place = own_place(cgroups, controller);
  const auto mounted = read_mounts(mounts, controller);
  if (!place || mounted.empty()) return {};
  std::vector<std::string> found;
  for (const cgroup_mount& mount : mounted) {
    auto rest = below(*place, mount.root);
    if (!rest) continue;
    for (; !rest->empty(); rest->resize(rest->rfind('/')))
      found.push_back(root + mount.point + *rest);
    found.push_back(root + mount.point);
    return found;
  }
  return {root + mounted.front().point};
}

}  // namespace ddprun::launcher
