// What a child does between fork and exec.
//
// The child of a process with threads may make only async-signal-safe calls. So all that needs
// memory is prepared before the fork, and run_child allocates nothing, throws nothing and never
// returns.
//
// The parent waits for none of it. It can take as long as a file system hangs (closing files on
// NFS, the working directory, exec itself). So all descriptors that the program does not get are
// closed first: a child that hangs then holds neither a socket of the agent nor the guardian's
// pipe.
//
// Thread rule: run_child only in a fresh child, with all signals blocked.
#pragma once

#include "launcher/process/spawner.hpp"

#include <csignal>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace ddprun::launcher {

// What the child writes to the report pipe when a stage fails, in a single atomic write.
struct start_report {
  start_stage stage;
  int error;
  bool program_is_there;  // this and the next are checked when exec has failed
  bool program_may_execute;
};

// All that the child needs, in the form in which system calls take it.
struct child_plan {
  const char* program = nullptr;
  std::vector<const char*> argv;          // null-terminated, into the request
  std::vector<const char*> environment;   // null-terminated, into the request
  const char* directory = nullptr;        // null: stay in ours
  std::vector<unsigned long> processors;  // a mask for sched_setaffinity; empty: as ours
  int input = -1;                         // -1: as ours
  int output = -1;
  int errors = -1;
  int report = -1;
  int announce_to = -1;
  int cgroup = -1;  // to fork the child into; -1: ours
  bool dies_with_parent = true;
  bool has_our_handlers = true;  // of signals, which the child has to reset
  bool ignores_signals_to_all = false;
  pid_t parent = -1;
  sigset_t mask;              // of the spawning thread, before it blocked all signals
  rlimit descriptor_limit{};  // that the child gets
};

// The pointers are valid as long as `request` and `program` are.
child_plan make_child_plan(const spawn_request& request, const std::string& program);

[[noreturn]] void run_child(const child_plan& plan) noexcept;

}  // namespace ddprun::launcher
