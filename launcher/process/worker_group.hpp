// A worker_group is the workers of one round on this node. They are started one after the other and
// signalled together; the group is done when the last of them is.
//
// Nothing here blocks: a worker is started once the previous one has executed its program, whenever
// that is, and programs are looked up in PATH on another thread. A signal takes effect at once,
// even while workers are being started: the one that is about to execute its program is killed, and
// no further one is started. A worker that hangs in exec counts as alive until it is gone, as does
// any worker that cannot be killed.
//
// If the system has no resources for one more process (descriptors, processes, memory), starting
// that worker is tried again until `shortage_limit` has passed: the shortage is often over by then,
// and a restart would run into it at once.
//
// A worker is done when it has ended, its pipes are drained, and no process of its group runs any
// more. A failed worker's group is killed at once, because its children hold devices and ports that
// the next round needs; and its pipes are read at once, even if our own reader is slow, because
// they hold the reason. Pipes that another process holds open are waited for up to `drain_limit`,
// not counting the time in which our reader holds their output back; then they are read once more
// and closed.
//
// Processes that a successful worker leaves behind, in its group or not, have `children_grace` to
// end by themselves, unless the round is stopped; without a limit they are left alone.
//
// The last event about the last worker comes only when its strays are gone (see stray_reaper).
// Strays are killed when all workers have ended, or at once after kill(). So no child of this round
// lives beside the next round, or after the run. Strays that survive SIGKILL delay that event for
// as long as they live, as a worker does; but only for `stray_limit` if the workers were not asked
// to end, because then the other nodes wait to hear how this node ended.
//
// A worker that was asked to end may survive, if its spawner allows it (launcher/survivors). It is
// then done at once, without waiting for its pipes, and it and its descendants are no strays.
//
// The rules are in worker_group_machine.hpp; this class is their link to the system.
//
// Thread rule: the main thread; handlers are called on the executor, never from inside a call, and
// may destroy the group. Ownership: the references must outlive it. Destroying it while workers
// live kills them without waiting, and no handler is called any more.
#pragma once

#include "launcher/log/log_mux.hpp"
#include "launcher/process/guardian.hpp"
#include "launcher/process/spawner.hpp"
#include "launcher/process/stray_reaper.hpp"
#include "launcher/process/worker_group_machine.hpp"
#include "rendezvous/base/error.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::launcher {

struct worker_command {
  std::vector<std::string> argv;         // argv[0] as in spawn_request
  std::vector<std::string> environment;  // complete, as NAME=value
  std::vector<int> processors;           // it may run on these; empty: as ours
  std::uint32_t local_rank = 0;
  std::uint32_t rank = 0;
  log_route output;
  log_route errors;
};

// It was not tried to start that worker: an earlier one could not be, or a signal came first.
struct not_tried {};

// How a worker of a round has ended. Of one that was not started, only the first three are known.
struct worker_end {
  std::uint32_t local_rank = 0;
  std::uint32_t rank = 0;
  // How its process has ended, or why there was none.
  std::variant<exit_status, start_failure, not_tried> how;
  pid_t pid = -1;
  std::chrono::steady_clock::time_point ended_at;  // of the process, not its pipes
  std::string tail;         // the last 4 KiB of its standard error, valid UTF-8
  std::string output_tail;  // of its standard output, likewise
  // `tail` when it was first signalled; empty: it never was.
  std::string tail_before_stop;
  log::output_loss lost;  // of its output, because ours was not read in time

  bool was_started() const { return std::holds_alternative<exit_status>(how); }
  bool success() const { return was_started() && status().success(); }
  // Only of a worker that was started.
  const exit_status& status() const {
    DDPRUN_ASSERT(was_started());
    return *std::get_if<exit_status>(&how);
  }
};

class worker_group {
 public:
  struct options {
    std::chrono::milliseconds drain_limit{2000};
    std::chrono::milliseconds stray_limit{5000};
    std::chrono::milliseconds shortage_limit{5000};
    std::optional<duration> children_grace = duration::zero();
  };

  // Processes that a successful worker has left behind, and what happens to them.
  struct left_behind {
    workers::leftover_state what = workers::leftover_state::spared;
    std::optional<std::uint32_t> rank;   // the worker with that group; none: they have left it
    std::vector<std::string> processes;  // "rsync (4711)", when they were seen
  };

  struct events {
    std::function<void()> all_started;  // all programs were executed
    // A resource is short, and it tries again. Once for each stretch of shortage.
    std::function<void(const start_failure&)> short_of;
    // Once for each command. If a worker could not be started, no further one is; running workers
    // go on until a stop.
    std::function<void(const worker_end&)> ended;
    std::function<void()> all_ended;  // once, after the last of these
    // A second after they were left behind, and when they are killed or left alone.
    std::function<void(const left_behind&)> children_stay;
    // These strays have survived SIGKILL for `stray_limit`. At most once.
    std::function<void(const std::vector<pid_t>&)> strays_stay;
  };

  struct live_worker {
    std::uint32_t local_rank;
    std::uint32_t rank;
    pid_t pid;
    std::uint64_t said_bytes;  // on both streams so far
  };

  struct words {
    std::string output, errors;  // at most 4 KiB each, valid UTF-8
  };

  // `guard` may be null: then the workers' children survive the agent's death. So may `strays`:
  // then processes that have left the groups live on.
  worker_group(boost::asio::any_io_executor executor, spawner& spawn, log_mux& mux, guardian* guard,
               stray_reaper* strays, options values);
  ~worker_group();
  worker_group(const worker_group&) = delete;
  worker_group& operator=(const worker_group&) = delete;

  // Call it once, with at least one command.
  void start(std::vector<worker_command> commands, events handlers);

  // Signals the process group of every worker that is not done.
  void signal(int signal);
  // Passes a signal on to a worker of live(), without stopping it. If the worker has no handler (a
  // shell that has started the program), the processes of its group that have one get it. False:
  // none has.
  bool pass_on(pid_t to, int signal) const;
  // The live() worker in whose session that process runs; none: no worker, or the process is gone.
  std::optional<live_worker> holder_of(pid_t process) const;
  // Our terminals have these sizes now, and workers with terminals are told; none: no terminal.
  void resize_terminals(std::optional<terminal_size> output, std::optional<terminal_size> errors);
  void kill();  // SIGKILL, also to strays, until none is left

  // The workers that have a process and are not done: after kill() and a wait, those that cannot be
  // killed.
  std::vector<live_worker> live() const;
  // The last output of this rank on both streams; empty if it is not alive.
  words words_of(std::uint32_t rank) const;

 private:
  struct worker;
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace ddprun::launcher
