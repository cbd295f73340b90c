// A start_failure says why a process could not be started: at which stage, and what the system
// answered there.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

// The steps from request to running program, in order. All from `session` on are done in the child,
// which reports the one that failed.
enum class start_stage : int {
  find,         // no such program in PATH
  descriptors,  // the pipes, or the handle of the child
  fork,
  session,       // setsid
  death_signal,  // prctl, or the parent was gone by then
  streams,       // standard input, output and error
  inheritance,   // close-on-exec for everything else
  directory,     // chdir
  affinity,      // the processors that it is bound to
  exec,
};

std::string_view to_string(start_stage stage);

// Whether the system was out of processes, memory or descriptors, which may pass.
bool is_shortage(int error);

struct start_failure {
  start_stage stage = start_stage::exec;
  int error = 0;          // errno of that stage
  std::string program;    // as given
  std::string directory;  // where it was to run; empty: where ddprun runs
  // What the child saw when exec failed; asked there, as it may block.
  bool program_is_there = false;
  bool program_may_execute = false;

  // "cannot execute ./train: Permission denied (stage: exec)", with what to look at where the
  // system's words mislead: a script whose interpreter is missing is "No such file or directory".
  std::string describe() const;
};

}  // namespace ddprun::launcher
