// Reads the system's table of processes (/proc), for the few questions that no handle answers: who
// is left of a process group, and which orphans were given to us.
//
// It costs milliseconds on a busy host: for the rare paths only.
//
// Thread rule: may be called from any thread.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

struct process_stat {
  char state = '?';  // R, S, D, T, Z, ... (proc(5))
  pid_t parent = -1;
  pid_t group = -1;
  unsigned long long ticks = 0;  // of processors, by all its threads
  int threads = 0;
};

// None: there is no such process. Does not block, whatever the process does.
std::optional<process_stat> stat_of(pid_t pid);

// The same of its first thread alone: `ticks` are that thread's own.
std::optional<process_stat> main_thread_stat_of(pid_t pid);

struct process_entry {
  pid_t pid = -1;
  pid_t parent = -1;
  pid_t group = -1;
  bool dead = false;  // a zombie: it has run its last instruction, and waits to be reaped
};

// All that could be read; a process that ends meanwhile is left out.
std::vector<process_entry> list_processes();

// Those of the groups of which a process runs, by at most one look at the table; zombies do not
// count (nobody may ever reap them where the first process of a container does not).
std::vector<pid_t> running_groups(const std::vector<pid_t>& groups);

// The children of this process that were forked by its first thread or came to it as orphans, dead
// ones among them, in the order in which they came. Cheap, and does not block.
std::vector<pid_t> list_children();

// Whether it has run its last instruction: a zombie, or no process any more. Does not block.
bool is_dead(pid_t pid);

// Whether it has a handler of its own for a signal. False, too, where there is no such process.
bool has_handler(pid_t pid, int signal);

// The processes that were started with `entry` ("NAME=VALUE") in their environment, as far as this
// process may look; zombies have none. A process that writes over its own environment is not found.
// Blocks while the memory of one of them cannot be looked at: never on the main thread.
std::vector<pid_t> processes_with(const std::string& entry);

// Whether this process has it; blocks in the same way.
bool has_variable(pid_t pid, const std::string& entry);

// The same; none where it shows no environment: it has none, or is just executing a program and
// will have one (proc(5) does not say so; environ_read() of the kernel's fs/proc/base.c does).
std::optional<bool> shows_variable(pid_t pid, const std::string& entry);

// As the kernel knows it, at most 15 bytes; empty when there is no such process.
std::string process_name(pid_t pid);

}  // namespace ddprun::launcher
