// A start_failure tells why a process could not be started: the stage, and the system's error.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

// The stages from request to running program, in order. The child performs those from `session` to
// `exec`, and reports the one that failed.
enum class start_stage : int {
  find,         // no such program in PATH
  descriptors,  // the pipes, or the child's pidfd
  fork,
  session,       // setsid
  death_signal,  // prctl, or the parent had died by then
  streams,       // standard input, output and error
  inheritance,   // close-on-exec for everything else
  directory,     // chdir
  affinity,      // to the CPUs of the request
  exec,
  spare,  // none of these: the waiting process that was to run it ended before it began
};

std::string_view to_string(start_stage stage);

// True for a lack of processes, memory or descriptors, which may pass.
bool is_shortage(int error);

struct start_failure {
  start_stage stage = start_stage::exec;
  int error = 0;          // errno of that stage
  std::string program;    // as given
  std::string directory;  // its working directory; empty: ours
  // What the child found after exec failed; it checks, because that may block.
  bool program_is_there = false;
  bool program_may_execute = false;

  // "cannot execute ./train: Permission denied (stage: exec)", with a hint if the system's message
  // is misleading: a script with a missing interpreter gets "No such file or directory".
  std::string describe() const;
};

}  // namespace ddprun::launcher
