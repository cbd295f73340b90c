// A spawner starts processes and tells when they run and when they end. It is the seam between the
// agent and the system: tests put a fake in its place.
//
// It is not a supervisor: it kills nothing by itself and knows of no worker groups. It waits for no
// file system: a program that takes long to execute is one of which nothing is told yet.
//
// Thread rule: everything from the one thread that runs the executor the spawner was made with (a
// child dies with the thread that forked it); handlers are called there, never from inside spawn().
// Ownership: a child is a zombie from its end until reap(): until then its process id, and that of
// its process group, cannot be given to a stranger, so signals are safe.
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
  std::string program;  // path of the file to execute; empty: argv[0], which is never looked up
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // all of it, as NAME=value
  std::string directory;                 // empty: that of this process
  std::vector<int> processors;           // on which it may run; empty: as this process
  bool capture = true;                   // stdout and stderr to pipes; false: shared with us
  // Captured by a pty in place of the pipe, where the system has one.
  std::optional<terminal_size> output_terminal;
  std::optional<terminal_size> errors_terminal;
  int standard_input = -1;   // a descriptor of ours for it; -1: shared with us
  int standard_output = -1;  // the same, unless it is captured
  int standard_error = -1;   // likewise
  int announce_to = -1;      // the guardian's pipe, told of the group before exec
  int cgroup = -1;           // its folder, see cgroup.hpp; -1, or where that fails: ours
  bool outlives_us = false;  // for the guardian: no death signal, and all signals held back
  // SIGTERM, SIGINT, SIGUSR1 and SIGUSR2, which a batch system sends to every process of a job, are
  // ignored: we act on them for it.
  bool ignores_signals_to_all = false;
};

struct spawned_child {
  pid_t pid = -1;    // also its session and its process group
  unique_fd output;  // read ends; none unless captured
  unique_fd errors;
};

struct spawn_handlers {
  // It runs its program now. Also when it was killed while it was about to, just before `ended`.
  std::function<void()> executed;
  // It could not, and nothing of it is left. The last call.
  std::function<void(const start_failure& why)> failed;
  std::function<void(pid_t pid, exit_status status)> ended;
  // In place of `ended`, and the last call: it has done what was asked of it by a signal, and lives
  // on for another spawn() (launcher/survivors). It is its spawner's: nobody else signals or reaps
  // it. Called only where it is set.
  std::function<void()> left;
};

using spawn_result = boost::system::result<spawned_child, start_failure>;

class spawner {
 public:
  using ended_handler = std::function<void(pid_t, exit_status)>;

  virtual ~spawner() = default;

  // Forks. On an error here nothing is left of it, and no handler is called. The child may be
  // signalled from now on; one that hangs in exec may outlive even SIGKILL.
  virtual spawn_result spawn(const spawn_request& request, spawn_handlers handlers) = 0;

  // Watches a child that was forked elsewhere as if it had been started here. False: there is no
  // descriptor for its handle, so that its end will not be told; it is this spawner's all the same.
  virtual bool adopt(pid_t pid, ended_handler ended) = 0;

  // Sends to every process of the child's group. No effect once it was reaped.
  virtual void signal_group(pid_t pid, int signal) = 0;

  // Gives the process id of an ended child back to the system; blocks while it has not ended.
  virtual void reap(pid_t pid) = 0;

  // The same for a killed child that nobody will be told of, and waits no longer than that. False:
  // it has not ended, and stays what it is.
  virtual bool reap_within(pid_t pid, duration limit) = 0;

  // Those of the groups in which some process runs, and reaps orphans of theirs that came to us.
  // Only after reap() of each, with SIGKILL sent before.
  virtual std::vector<pid_t> living_groups(const std::vector<pid_t>& groups) = 0;

  // Whether the process is a child made here and not reaped yet.
  virtual bool owns(pid_t pid) const = 0;
};

}  // namespace ddprun::launcher
