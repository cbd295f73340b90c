// Finds the folders of our own cgroup and of its parents.
//
// It reads /proc/self/cgroup and /proc/self/mountinfo (man 7 cgroups, man 5 proc). A controller is
// named for version 1 ("cpu", "memory"); no name means the single hierarchy of version 2. Both may
// be mounted side by side.
//
// Thread rule: any thread.
#pragma once

#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// Empty if that hierarchy is not mounted, or not with our part of it.
std::optional<std::string> own_cgroup_folder(std::istream& cgroups, std::istream& mounts,
                                             std::string_view controller = {});

// The innermost first, up to the mount point; empty if it is not mounted. If our part is outside of
// the mount (a container that sees the host's), only the mount point. `root` is "/" except in
// tests.
std::vector<std::string> own_cgroup_folders(const std::string& root,
                                            std::string_view controller = {});

}  // namespace ddprun::launcher
