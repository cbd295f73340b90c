// Whether workers have moved since the last look: used a twentieth of a processor, read or written
// 64 KiB, or stood in the kernel for a disk. What a waiting rank's own threads do (heartbeats,
// watchdogs) is less.
//
// The processes that a worker has started in its group count, too; they are looked at only where
// the worker itself has not moved. One that was not there at the last look is a move.
//
// Of a worker that says its steps its own processor time is no move: it may spin as it waits. A
// worker `spins` if it has moved by its own processor time alone, and its main thread has used the
// processor and never went to sleep: it may be in a single call, which a call_watch finds out.
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
  bool is_running = false;  // or waits for a processor
};

struct movement {
  std::chrono::steady_clock::time_point at{};
  std::map<pid_t, process_usage> seen;
  std::map<pid_t, main_thread_usage> threads;  // of those that have moved by processor time alone
  std::set<pid_t> moved;                       // of the leaders
  std::set<pid_t> spins;                       // of those that have moved
};

struct movement_question {
  std::vector<pid_t> leaders;  // of the workers' groups
  std::set<pid_t> by_steps;    // those that say their steps, and have made none
  bool asks_who_spins = false;
  std::set<pid_t> asked;  // a signal of ours may have woken their main threads: they count as awake
};

movement look_for_moves(const movement_question& asked, const movement& before);

}  // namespace ddprun::launcher::evidence
