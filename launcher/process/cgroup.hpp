// A cgroup for the workers and all that they start. Who is forked into it stays in it, whatever
// session, environment and parent it has: it is found when the agent has been killed, too.
//
// It lies below the cgroup that this process is in, and has no limits of its own. It can be made
// where that is allowed: as root, or in a subtree that was delegated (systemd's Delegate=).
// Elsewhere there is none, which is nothing to tell: strays are then found as stray_reaper.hpp
// says.
//
// Only version 2, also beside version 1: a child is forked into it
// (CLONE_INTO_CGROUP, Linux 5.7). To move a running process takes 8 ms, in either version.
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
  // None where it is not allowed. Also takes away those that dead agents left.
  static std::optional<cgroup> make();
  cgroup(cgroup&& other) noexcept = default;
  cgroup& operator=(cgroup&& other) = delete;
  ~cgroup();  // takes it away, unless somebody is still in it

  int fd() const { return folder_.get(); }  // for spawn_request::cgroup
  const std::string& path() const { return path_; }

 private:
  cgroup(std::string path, unique_fd folder) : path_(std::move(path)), folder_(std::move(folder)) {}

  std::string path_;
  unique_fd folder_;  // none: moved from
};

// The processes in it and in the groups below it: a worker may make its own. Zombies do not count.
std::vector<pid_t> processes_in_cgroup(const std::string& path);

// With those below it; what somebody is still in stays.
void remove_cgroup(const std::string& path);

}  // namespace ddprun::launcher
