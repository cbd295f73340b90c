// A spawner starts processes, and reports when they run and when they end. It is the seam between
// the agent and the system: tests put a fake in its place.
//
// It is no supervisor: it kills nothing by itself and does not know worker groups. It waits for no
// file system: while a program takes long to execute, nothing is reported about it.
//
// Thread rule: call it only from the thread that runs its executor (a child dies with the thread
// that forked it); handlers are called there, never from inside spawn(). Ownership: a child is a
// zombie from its end until reap(). Until then its PID and its group's ID cannot be reused, so
// signals are safe.
#pragma once

#include "launcher/log/terminal_size.hpp"
#include "launcher/process/exit_status.hpp"
#include "launcher/process/start_failure.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <boost/system/result.hpp>

#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

struct spawn_request {
  std::string program;  // path of the file; empty: argv[0], which is not looked up in PATH
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // complete, as NAME=value
  std::string directory;                 // empty: ours
  std::vector<int> processors;           // it may run on these; empty: as ours
  bool capture = true;                   // stdout and stderr go to pipes; false: they are ours
  // Capture with a pty instead of a pipe, if the system has one.
  std::optional<terminal_size> output_terminal;
  std::optional<terminal_size> errors_terminal;
  int standard_input = -1;   // a descriptor of ours for it; -1: ours
  int standard_output = -1;  // the same, unless captured
  int standard_error = -1;   // likewise
  int announce_to = -1;      // the guardian's pipe, to which the child sends its group before exec
  int cgroup = -1;           // a folder, see cgroup.hpp; -1, or if that fails: ours
  bool outlives_us = false;  // for the guardian: no death signal, and all signals blocked
  // Ignores SIGTERM, SIGINT, SIGUSR1 and SIGUSR2, which a batch system sends to every process of a
  // job: the agent acts on them.
  bool ignores_signals_to_all = false;
};

struct spawned_child {
  pid_t pid = -1;    // also its session and its process group
  unique_fd output;  // read ends; none unless captured
  unique_fd errors;
};

struct spawn_handlers {
  // It runs its program now. Also called just before `ended` if it was killed before that.
  std::function<void()> executed;
  // It could not run its program, and nothing of it is left. The last call.
  std::function<void(const start_failure& why)> failed;
  std::function<void(pid_t pid, exit_status status)> ended;
  // Called instead of `ended`, as the last call: it has left its round after a signal, and lives on
  // for another spawn() (launcher/survivors). It now belongs to its spawner, and nobody else may
  // signal or reap it. Never called if empty.
  std::function<void()> left;
};

using spawn_result = boost::system::result<spawned_child, start_failure>;

class spawner {
 public:
  using ended_handler = std::function<void(pid_t, exit_status)>;

  virtual ~spawner() = default;

  // Forks. On an error nothing of the child is left, and no handler is called. The child may be
  // signalled from now on; one that hangs in exec may outlive even SIGKILL.
  virtual spawn_result spawn(const spawn_request& request, spawn_handlers handlers) = 0;

  // Watches a child that was forked elsewhere as if it had been started here. False: there is no
  // descriptor for its pidfd, so its end will not be reported; it belongs to this spawner all the
  // same.
  virtual bool adopt(pid_t pid, ended_handler ended) = 0;

  // Signals every process of the child's group. No effect after reap().
  virtual void signal_group(pid_t pid, int signal) = 0;

  // Releases the PID of an ended child; blocks while it has not ended.
  virtual void reap(pid_t pid) = 0;

  // The same for a killed child whose end will not be reported, waiting for `limit` at most. False:
  // it has not ended, and nothing has changed.
  virtual bool reap_within(pid_t pid, duration limit) = 0;

  // Returns those of the groups in which a process runs, and reaps their orphans that came to us.
  // Call it only after reap() of each, with SIGKILL sent before.
  virtual std::vector<pid_t> living_groups(const std::vector<pid_t>& groups) = 0;

  // True if the process is a child of this spawner and not reaped yet.
  virtual bool owns(pid_t pid) const = 0;
};

}  // namespace ddprun::launcher
