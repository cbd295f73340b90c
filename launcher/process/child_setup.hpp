// What a child does between fork and exec.
//
// The child of a process with threads may only make async-signal-safe calls: everything that needs
// memory is prepared before the fork, and the function here allocates nothing, throws nothing and
// never returns.
//
// The parent waits for none of it. It can take as long as a file system hangs (closing what was
// written to NFS, the working directory, exec itself): before that every descriptor that the
// program does not get is closed, so that a child that hangs holds no socket of the agent open, and
// not the guardian's pipe.
//
// Thread rule: run_child only in a fresh child, with every signal blocked.
#pragma once

#include "launcher/process/spawner.hpp"

#include <csignal>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace ddprun::launcher {

// What the child writes to the report pipe when a stage fails. One write, so never torn.
struct start_report {
  start_stage stage;
  int error;
  bool program_is_there;  // this and the next: asked when exec failed
  bool program_may_execute;
};

// All that the child needs, in the form that it needs it.
struct child_plan {
  const char* program = nullptr;
  std::vector<const char*> argv;          // null-terminated, into the request
  std::vector<const char*> environment;   // null-terminated, into the request
  const char* directory = nullptr;        // none: stay
  std::vector<unsigned long> processors;  // as a mask for sched_setaffinity; empty: keep
  int input = -1;                         // -1: keep
  int output = -1;
  int errors = -1;
  int report = -1;
  int announce_to = -1;
  int cgroup = -1;  // to be forked into; -1: ours
  bool dies_with_parent = true;
  bool has_our_handlers = true;  // of signals
  bool ignores_signals_to_all = false;
  pid_t parent = -1;
  sigset_t mask;              // of the thread that spawns, before it blocked everything
  rlimit descriptor_limit{};  // what the child gets
};

// The pointers live as long as `request` and `program` do.
child_plan make_child_plan(const spawn_request& request, const std::string& program);

[[noreturn]] void run_child(const child_plan& plan) noexcept;

}  // namespace ddprun::launcher
