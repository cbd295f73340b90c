// Reads the system's process table (/proc), for the few questions that no handle answers: which
// processes of a group are left, and which orphans have become our children.
//
// It takes milliseconds on a busy host, so it is for rare cases only.
//
// Thread rule: any thread.
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
  unsigned long long ticks = 0;  // processor time of all its threads
  int threads = 0;
};

// None: there is no such process. It does not block in any state of the process.
std::optional<process_stat> stat_of(pid_t pid);

// The same for one of its threads: `ticks` are that thread's own.
std::optional<process_stat> thread_stat_of(pid_t pid, pid_t thread);
std::optional<process_stat> main_thread_stat_of(pid_t pid);

struct process_entry {
  pid_t pid = -1;
  pid_t parent = -1;
  pid_t group = -1;
  bool dead = false;  // a zombie, which waits to be reaped
};

// All processes that could be read; one that ends meanwhile is skipped.
std::vector<process_entry> list_processes();

// Those of the groups in which a process runs; it reads the table at most once. Zombies do not
// count, because in a container whose first process does not reap, they stay forever.
std::vector<pid_t> running_groups(const std::vector<pid_t>& groups);

// The children of this process that its main thread has forked or that came to it as orphans,
// including zombies, in the order in which they came. It is cheap and does not block.
std::vector<pid_t> list_children();

// True if it is a zombie or does not exist. It does not block.
bool is_dead(pid_t pid);

// True if it has a handler for that signal. False, too, if there is no such process.
bool has_handler(pid_t pid, int signal);

// The processes that were started with `entry` ("NAME=VALUE") in their environment, as far as this
// process may read it; zombies have none. A process that overwrites its environment is not found.
// It blocks while the memory of one of them is locked: never call it on the main thread.
std::vector<pid_t> processes_with(const std::string& entry);

// True if this process has it; it may block in the same way.
bool has_variable(pid_t pid, const std::string& entry);

// The same; none if the environment is empty: the process has none, or is in the middle of execve
// (see environ_read() in the kernel's fs/proc/base.c; proc(5) does not mention it).
std::optional<bool> shows_variable(pid_t pid, const std::string& entry);

// Its name in the kernel, at most 15 bytes; empty: there is no such process.
std::string process_name(pid_t pid);

}  // namespace ddprun::launcher
