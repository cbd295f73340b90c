// Where the folders of our own cgroup are, and of those that it lies in.
//
// By what /proc/self/cgroup and /proc/self/mountinfo say (man 7 cgroups, man 5 proc). A controller
// is named for version 1 ("cpu", "memory"); without a name the one hierarchy of version 2 is meant.
// Both may be mounted beside each other.
//
// Thread rule: any thread.
#pragma once

#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// None where that hierarchy is not mounted, or not with our part of it.
std::optional<std::string> own_cgroup_folder(std::istream& cgroups, std::istream& mounts,
                                             std::string_view controller = {});

// The innermost first, up to where the hierarchy is mounted; empty where it is not. Where our part
// is outside of what is mounted (a container that was given the host's) it is the mount alone.
// `root` is "/", but for tests.
std::vector<std::string> own_cgroup_folders(const std::string& root,
                                            std::string_view controller = {});

}  // namespace ddprun::launcher
