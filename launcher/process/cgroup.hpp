// A cgroup for the workers and all that they start. A process that is forked into it stays in it,
// even with another session, environment or parent, so it is found even after the agent was killed.
//
// It is a child of this process's own cgroup, and has no limits. It can be created as root, or in a
// delegated subtree (systemd's Delegate=). Elsewhere there is none, silently: strays are then found
// as in stray_reaper.hpp.
//
// Only version 2 is used, also if version 1 is mounted beside it: a child is forked into it
// (CLONE_INTO_CGROUP, Linux 5.7), because moving a running process takes 8 ms in either version.
//
// No call here blocks on a process or a disk.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

class cgroup {
 public:
  // Returns none if it is not allowed. Also removes cgroups that dead agents have left.
  static std::optional<cgroup> make();
  cgroup(cgroup&& other) noexcept = default;
  cgroup& operator=(cgroup&& other) = delete;
  ~cgroup();  // removes it, unless a process is still in it

  int fd() const { return folder_.get(); }  // for spawn_request::cgroup
  const std::string& path() const { return path_; }

 private:
  cgroup(std::string path, unique_fd folder) : path_(std::move(path)), folder_(std::move(folder)) {}

  std::string path_;
  unique_fd folder_;  // none after a move
};

// The processes in it and in cgroups below it, which workers may create. Zombies do not count.
std::vector<pid_t> processes_in_cgroup(const std::string& path);

// Removes it with those below it, except those that still have processes.
void remove_cgroup(const std::string& path);

}  // namespace ddprun::launcher
