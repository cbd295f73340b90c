// A stray is a process that became our child by adoption: a grandchild whose own parent has died
// (the agent is a subreaper, prctl PR_SET_CHILD_SUBREAPER).
//
// Everything that a worker starts, in any session and with any environment, becomes a stray once
// its last ancestor below us is dead. So killing all strays, again and again until there are none,
// misses nothing, costs one read of /proc/self/task/TID/children, and never blocks.
//
// A process may have had children before it became ddprun (`sleep 9 & exec ddprun`, or the >(tee
// log) of a shell), and the first process of a container is given every orphan in it. Those are not
// our workers'. If there may be such, an orphan is a stray only if it has our session's mark in its
// environment, and one that has cleared its environment is left alone. The environment is read on
// another thread, because that may block.
//
// The guardian of a nested ddprun is neither killed nor waited for: it has only strays of ours left
// to kill, and then a message to send to its daemon.
//
// If a cgroup of our own is allowed, the workers are in it, and all processes in it are strays,
// too, even with a cleared environment or a living parent.
//
// Thread rule: the main thread; handlers on the executor.
#pragma once

#include "launcher/process/background_task.hpp"
#include "launcher/process/cgroup.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/process/spawner.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/signal_set.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher {

class stray_reaper {
 public:
  // Makes this process a subreaper and watches SIGCHLD. `spawn` must outlive it. Existing children
  // that are not the spawner's are never touched.
  stray_reaper(boost::asio::any_io_executor executor, spawner& spawn);

  // Creates a cgroup for workers that are started from now on, if that is allowed.
  void make_cgroup() {
    if (auto made = cgroup::make()) cgroup_.emplace(std::move(*made));
  }

  // From now on orphans may come from elsewhere, so their mark decides.
  void expect_strangers() { strangers_come_ = true; }

  // Processes of a worker that survives from round to round are no strays: all that are in its
  // session, or descend from it. The function must outlive this.
  void spare_descendants(std::function<bool(pid_t worker)> lives_on) {
    lives_on_ = std::move(lives_on);
  }

  // "NAME=VALUE", which is in the environment of every worker and of no other process on this host.
  void mark(const std::string& entry) { mark_ = entry; }

  // For spawn_request::cgroup and the guardian; -1 and empty if there is none.
  int cgroup_fd() const { return cgroup_ ? cgroup_->fd() : -1; }
  std::string cgroup_path() const { return cgroup_ ? cgroup_->path() : std::string(); }

  // Sends SIGKILL to every stray. Returns those that were still alive; empty: there is none, and
  // new ones can come only from the spawner's children.
  std::vector<pid_t> kill_strays();

  // Returns the strays without a signal.
  std::vector<pid_t> find_strays();

  // Returns those of them that are our children. Others, in the cgroup, may have a living parent.
  std::vector<pid_t> orphans();

  // Reaps ended children that are not the spawner's, one PID at a time: waitpid(-1) would take the
  // spawner's children, too.
  void reap();

 private:
  enum class origin { worker, elsewhere, unknown };

  bool is_spared(pid_t pid) const;

  void watch();
  bool forget(pid_t pid);               // reaps it; false: it cannot be reaped
  std::vector<pid_t> look(int signal);  // 0: no signal
  std::vector<pid_t> look_at_orphans(int signal, bool& reaped);
  std::vector<pid_t> look_at_members(int signal) const;
  origin origin_of(pid_t pid) const;
  void ask_for_marks(std::vector<pid_t> pids);

  boost::asio::signal_set child_ended_;
  spawner& spawner_;
  std::string mark_;
  std::function<bool(pid_t)> lives_on_;  // none: no worker survives rounds
  std::optional<cgroup> cgroup_;
  std::set<pid_t> found_here_;   // children from before this process became ddprun, and alive
  bool strangers_come_ = false;  // orphans may come from elsewhere
  std::set<pid_t> marked_;       // if strangers come: checked, and ours
  std::set<pid_t> strangers_;    // checked, and not ours
  // Had no readable environment; since when.
  std::map<pid_t, std::chrono::steady_clock::time_point> silent_;
  struct marks {
    std::vector<pid_t> ours;
    std::vector<pid_t> silent;
  };
  background_task<marks> marks_;
};

}  // namespace ddprun::launcher
