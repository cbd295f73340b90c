// The call_watch knows of workers whose main threads are still in one call of a library: they have
// not come back to the interpreter since they were asked.
//
// A script that computes, however much, comes back all the time; one that spins in a call as it
// waits for its GPU does not. The question is a signal with a handler of Python, which runs as soon
// as the main thread interprets again, and adds a byte to a file (ddprun_stacks.py). A worker
// without the file, or without a handler, is sent nothing: the signal would end it.
//
// Thread rule: one thread at a time, not the main one; nothing here waits. Ownership: the pidfds
// are the caller's, and make sure that a signal goes to the process that was meant.
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
    std::set<pid_t> held;   // they were asked at an earlier look, and have not come back since
    std::set<pid_t> asked;  // these, and those that were asked now
  };
  // Asks those that were not asked before, and forgets those that have come back, or are not among
  // these.
  answer look(const std::map<pid_t, unique_fd>& workers);

 private:
  struct question {
    unique_fd file;
    off_t bytes = 0;  // in it, when it was asked
  };

  std::map<pid_t, question> asked_;
};

}  // namespace ddprun::launcher::evidence
