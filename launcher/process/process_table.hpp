// Reads the system's table of processes (/proc), for the few questions that no handle answers: who
// is left of a process group, and which orphans were given to us.
//
// It costs milliseconds on a busy host: for the rare paths only.
//
// Thread rule: may be called from any thread.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun {

struct process_entry {
  pid_t pid = -1;
  pid_t parent = -1;
  pid_t group = -1;
  bool dead = false;  // a zombie: it has run its last instruction, and waits to be reaped
};

// All that could be read; a process that ends meanwhile is left out.
std::vector<process_entry> list_processes();

// True while a process of the group runs; zombies do not count (nobody may ever reap them where the
// first process of a container does not).
bool group_runs(pid_t group);

// Who was started with `entry` ("NAME=VALUE") in its environment, as far as this process may look;
// zombies have none. A process that writes over its own environment is not found.
std::vector<pid_t> processes_with(const std::string& entry);

// As the kernel knows it, at most 15 bytes; empty when there is no such process.
std::string process_name(pid_t pid);

}  // namespace ddprun
