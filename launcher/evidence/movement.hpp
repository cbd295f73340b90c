// Tells whether workers have moved since the last look: whether they used a twentieth of a
// processor, read or wrote 64 KiB, or were blocked on a disk. The background threads of a waiting
// rank (heartbeats, watchdogs) stay below that.
//
// Processes that a worker has started in its group count, too. They are looked at only if the
// worker itself has not moved. A new process counts as a move.
//
// For a worker that reports its steps, its own processor time is no move: it may spin while it
// waits. A worker `spins` if it has moved by its own processor time alone, and its main thread has
// used the processor and never slept. It may be in a single call, which call_watch finds out.
//
// Thread rule: any thread, not the main one (see proc_files.hpp).
#pragma once

#include "launcher/evidence/proc_files.hpp"

#include <chrono>
#include <map>
#include <set>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher::evidence {

struct main_thread_usage {
  unsigned long long sleeps = 0;
  unsigned long long ticks = 0;
  bool is_running = false;  // or runnable
};

struct movement {
  std::chrono::steady_clock::time_point at{};
  std::map<pid_t, process_usage> seen;
  std::map<pid_t, main_thread_usage> threads;  // of leaders that have moved by processor time alone
  std::set<pid_t> moved;                       // leaders only
  std::set<pid_t> spins;                       // a subset of `moved`
};

struct movement_question {
  std::vector<pid_t> leaders;  // the workers, each the leader of its group
  std::set<pid_t> by_steps;    // report their steps, and have reported none since the last look
  bool asks_who_spins = false;
  std::set<pid_t> asked;  // our signal may have woken their main threads, so a wake-up of theirs
                          // does not count as sleep
};

movement look_for_moves(const movement_question& asked, const movement& before);

}  // namespace ddprun::launcher::evidence
