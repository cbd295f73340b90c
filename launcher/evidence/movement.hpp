// Whether workers have moved since the last look: used a twentieth of a processor, read or written
// 64 KiB, or begun to wait in the kernel for a disk. What a waiting rank's own threads do
// (heartbeats, watchdogs) is less. A wait that has lasted since the last look is no move: a file
// server that is gone never ends it, and a disk that is slow ends many.
//
// Processes that a worker has started in its group count, too. They are looked at only if the
// worker itself has not moved. A new process counts as a move.
//
// What a worker's PyTorch takes to answer the agent (worker_server.hpp) is none of its moves: a
// long answer takes half a second of a processor.
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
#include <optional>
#include <set>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher::evidence {

enum class move { none, computed, other };

// `before`: none: the process was not there. `ticks_that_count`: of processors, between the two.
move move_between(const std::optional<process_usage>& before, const process_usage& now,
                  unsigned long long ticks_that_count);

// Leaves out what its server has used so far, `answered`. `before`: the result of the last look.
// The two numbers are not read at one moment, so what a server uses in between may be missing until
// the next look; the result never falls, or that would be a move then.
process_usage without_answers(process_usage used, unsigned long long answered,
                              const std::optional<process_usage>& before);

struct main_thread_usage {
  unsigned long long sleeps = 0;
  unsigned long long ticks = 0;
  bool is_running = false;  // or runnable
};

struct movement {
  std::chrono::steady_clock::time_point at{};
  std::map<pid_t, process_usage> seen;         // of answerers without_answers()
  std::map<pid_t, main_thread_usage> threads;  // of leaders that have moved by processor time alone
  std::set<pid_t> moved;                       // leaders only
  std::set<pid_t> spins;                       // a subset of `moved`
  std::map<pid_t, unsigned long long> answering{};  // ticks of answerers' servers since they began
};

struct movement_question {
  std::vector<pid_t> leaders;  // the workers, each the leader of its group
  std::set<pid_t> by_steps;    // report their steps, and have reported none since the last look
  std::set<pid_t>
      answerers{};  // were ever asked for their collectives, if only since the last look
  bool asks_who_spins = false;
  std::set<pid_t> asked;  // our signal may have woken their main threads, so a wake-up of theirs
                          // does not count as sleep
};

movement look_for_moves(const movement_question& asked, const movement& before);

}  // namespace ddprun::launcher::evidence
