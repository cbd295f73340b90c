// A stray is a process that became our child by adoption: a grandchild whose own parent has died
// (the agent is a subreaper, prctl PR_SET_CHILD_SUBREAPER).
//
// Whatever a worker starts, in whatever session and with whatever environment, is a stray as soon
// as its last ancestor below us is dead. So killing all strays, again and again until there is
// none, misses nothing, costs one read of /proc/self/task/TID/children, and blocks on nobody.
//
// A process may have had children before it became ddprun (`sleep 9 & exec ddprun`, or the >(tee
// log) of a shell), and the first process of a container is given every orphan in it. Those are
// nobody's workers: where there are such, an orphan is a stray only with the mark of our session in
// its environment, and one that has cleared its environment is left alone. The environment is read
// on another thread, as that may block.
//
// The guardian of a ddprun among the strays is neither killed nor waited for: all that it has left
// to kill are strays of ours, and then it has a word for its daemon.
//
// Where a cgroup of our own is allowed, the workers are in it, and all who are in it are strays,
// too: those who have cleared their environment, and those whose parents still live.
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
  // Makes this process a subreaper and watches SIGCHLD. `spawn` must outlive it. The children that
  // there are now, and are not the spawner's, are never touched.
  stray_reaper(boost::asio::any_io_executor executor, spawner& spawn);

  // Makes a cgroup for the workers that are started from now on, where that is allowed.
  void make_cgroup() {
    if (auto made = cgroup::make()) cgroup_.emplace(std::move(*made));
  }

  // From now on not every orphan is our workers': their mark decides.
  void expect_strangers() { strangers_come_ = true; }

  // What a worker that lives on from round to round has started is no stray: whatever is in its
  // session, or descends from it in another. The function must outlive this.
  void spare_descendants(std::function<bool(pid_t worker)> lives_on) {
    lives_on_ = std::move(lives_on);
  }

  // "NAME=VALUE", which every worker has in its environment and nobody else on this host.
  void mark(const std::string& entry) { mark_ = entry; }

  // For spawn_request::cgroup and the guardian; -1 and empty where there is none.
  int cgroup_fd() const { return cgroup_ ? cgroup_->fd() : -1; }
  std::string cgroup_path() const { return cgroup_ ? cgroup_->path() : std::string(); }

  // SIGKILL to every stray there is now. Those that have not died of it before; empty when there is
  // none left, and none can come but from the spawner's children.
  std::vector<pid_t> kill_strays();

  // The same without a signal: those that it would be sent to.
  std::vector<pid_t> find_strays();

  // Those of them that have come to us. Others, in the cgroup, may have a parent that lives.
  std::vector<pid_t> orphans();

  // Reaps what has ended and is not the spawner's. Strays are reaped by process id: waitpid(-1)
  // would take the spawner's children from it.
  void reap();

 private:
  enum class origin { worker, elsewhere, unknown };

  bool is_spared(pid_t pid) const;

  void watch();
  bool forget(pid_t pid);               // reaps it; false: it cannot be
  std::vector<pid_t> look(int signal);  // 0: only look
  std::vector<pid_t> look_at_orphans(int signal, bool& reaped);
  std::vector<pid_t> look_at_members(int signal) const;
  origin origin_of(pid_t pid) const;
  void ask_for_marks(std::vector<pid_t> pids);

  boost::asio::signal_set child_ended_;
  spawner& spawner_;
  std::string mark_;
  std::function<bool(pid_t)> lives_on_;  // none: no worker does
  std::optional<cgroup> cgroup_;
  std::set<pid_t> found_here_;   // they were children before us, and live
  bool strangers_come_ = false;  // not every orphan is our workers'
  std::set<pid_t> marked_;       // where strangers come: looked at, and ours
  std::set<pid_t> strangers_;    // the same, and not ours
  // Likewise: it showed no environment, then first.
  std::map<pid_t, std::chrono::steady_clock::time_point> silent_;
  struct marks {
    std::vector<pid_t> ours;
    std::vector<pid_t> silent;
  };
  background_task<marks> marks_;
};

}  // namespace ddprun::launcher
