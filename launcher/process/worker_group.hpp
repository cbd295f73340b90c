// A worker_group is the workers of one round on this node: started one after the other, signalled
// together, and done when the last of them is.
//
// Nothing here waits: a worker is started once the one before has executed its program, whenever
// that is, and programs are looked for in PATH on another thread. A signal while workers are still
// being started takes effect at once: the one that is about to execute its program is killed (one
// that hangs there counts as living until it is gone, as does any worker that cannot be killed),
// and no further one is started.
//
// Where the system has no room for one more process (descriptors, processes, memory), that worker
// is tried again until `shortage_limit` has passed: what is short is often let go of by then, and
// a restart that finds the same would be spent in no time.
//
// A worker is done when it has ended, its pipes are drained, and no process of its group runs any
// more. A failed worker's group is killed at once (its children hold devices and ports that the
// next round needs), and its pipes are read at once, whatever our own reader does: the reason is in
// them. Pipes that somebody else holds are waited for `drain_limit`, without the time for which our
// reader holds their output back; what is in them then is read before they are let go.
//
// What a successful one leaves behind has `children_grace` to end by itself, in its group or not,
// unless somebody stops the round; without a limit it is left alone.
//
// The last word about the last worker comes only when its strays are gone too (see stray_reaper):
// they are killed when all workers have ended, after kill() at once. So no child of this round
// lives beside the next, or after the run. Strays that outlive SIGKILL hold that word back like a
// worker that does, for as long as they live; but only for `stray_limit` where nobody has asked the
// workers to end, because then the others wait to hear how this node ended.
//
// A worker that was asked to end may live on, where its spawner lets it (launcher/survivors): it is
// done at once, and so is the wait for its pipes; it and what it has started are no strays.
//
// All of that is decided in worker_group_machine.hpp; here is what it takes of the system.
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

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct worker_command {
  std::vector<std::string> argv;         // argv[0] by the rules of spawn_request
  std::vector<std::string> environment;  // all of it, as NAME=value
  std::vector<int> processors;           // on which it may run; empty: as ours
  std::uint32_t local_rank = 0;
  std::uint32_t rank = 0;
  log_route output;
  log_route errors;
};

// How one worker ended that was started.
struct worker_end {
  std::uint32_t local_rank = 0;
  std::uint32_t rank = 0;
  pid_t pid = -1;
  exit_status status;
  std::chrono::steady_clock::time_point ended_at;  // the process, not its pipes
  std::string tail;         // the last 4 KiB of its standard error, valid UTF-8
  std::string output_tail;  // of its standard output, likewise
  // `tail` as of when it was first signalled; empty: it never was.
  std::string tail_before_stop;
  log::output_loss lost;  // of its output, because nobody read ours in time
};

class worker_group {
 public:
  struct options {
    std::chrono::milliseconds drain_limit{2000};
    std::chrono::milliseconds stray_limit{5000};
    std::chrono::milliseconds shortage_limit{5000};
    std::optional<duration> children_grace = duration::zero();
  };

  // Processes that a success has left behind, and what becomes of them.
  struct left_behind {
    workers::leftover_state what = workers::leftover_state::spared;
    std::optional<std::uint32_t> rank;  // of the worker whose group they are in; none: they left it
    std::vector<std::string> processes;  // "rsync (4711)", as they were when they were seen
  };

  // For each command exactly one of start_failed, not_started and ended is called.
  struct events {
    std::function<void()> all_started;  // every program was executed
    // One could not be started; no further one is. Those that run go on until they are stopped.
    std::function<void(std::uint32_t local_rank, const start_failure&)> start_failed;
    // It is short of what it says, and tries again. Once for each stretch of shortage.
    std::function<void(const start_failure&)> short_of;
    // After a failure or a signal it is not even tried.
    std::function<void(std::uint32_t local_rank)> not_started;
    std::function<void(const worker_end&)> ended;
    std::function<void()> all_ended;  // once, after the last of the three
    // A second after they were left; and when they are ended, or kept.
    std::function<void(const left_behind&)> children_stay;
    // These outlived SIGKILL by `stray_limit`. At most once.
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

  // `guard` may be null: then nobody kills the workers' children when the agent dies; and `strays`:
  // then what has left the groups lives on.
  worker_group(boost::asio::any_io_executor executor, spawner& spawn, log_mux& mux, guardian* guard,
               stray_reaper* strays, options values);
  ~worker_group();
  worker_group(const worker_group&) = delete;
  worker_group& operator=(const worker_group&) = delete;

  // Once, with at least one command.
  void start(std::vector<worker_command> commands, events handlers);

  // To the process group of every worker that is not done.
  void signal(int signal);
  // To this one of live(), and nothing follows from it; where the worker has no handler for it (a
  // shell that started the program), to those processes of its group that have one. False: none
  // has.
  bool pass_on(pid_t to, int signal) const;
  // The one of live() in whose session that process runs; none: it is nobody's here, or gone.
  std::optional<live_worker> holder_of(pid_t process) const;
  // Ours have these sizes now, and the workers that have terminals are told; none: no terminal.
  void resize_terminals(std::optional<terminal_size> output, std::optional<terminal_size> errors);
  void kill();  // SIGKILL, to strays too, until none is left

  // Those that have a process and are not done: after kill() and a wait, the ones that cannot be
  // killed.
  std::vector<live_worker> live() const;
  // The last that this rank has said on both streams; nothing of one that does not live.
  words words_of(std::uint32_t rank) const;

 private:
  struct worker;
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace ddprun::launcher
