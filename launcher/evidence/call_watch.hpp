// The call_watch finds workers whose main thread stays inside one library call: since they were
// asked, the thread has not returned to the Python interpreter.
//
// A script that computes returns to the interpreter all the time, however much it computes; a
// script that spins in a call while it waits for its GPU does not. The question is a signal with a
// Python handler, which runs as soon as the main thread interprets again, and appends a byte to a
// file (ddprun_stacks.py). A worker without that file or handler is sent nothing, because the
// signal would kill it.
//
// Thread rule: one thread at a time, not the main one; nothing here blocks. Ownership: the caller
// owns the pidfds, which ensure that a signal cannot hit a process that reused the PID.
#pragma once

#include "launcher/evidence/stack_request.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <map>
#include <set>
#include <sys/types.h>

namespace ddprun::launcher::evidence {

inline constexpr int return_signal = stack_signal - 1;

class call_watch {
 public:
  struct answer {
    std::set<pid_t> held;   // asked at an earlier look, and not back since
    std::set<pid_t> asked;  // `held`, and the workers that were asked just now
  };
  // Asks the workers that have no open question, and forgets those that are back or not in
  // `workers`.
  answer look(const std::map<pid_t, unique_fd>& workers);

 private:
  struct question {
    unique_fd file;
    off_t bytes = 0;  // the size of the file when it was asked
  };

  std::map<pid_t, question> asked_;
};

}  // namespace ddprun::launcher::evidence
