// A stack_request asks one worker for the Python stacks of its threads, and reads the answer.
//
// A worker that was started with ddprun_stacks.py has a handler of `stack_signal` that writes them
// into a memory file. The request finds that file among the worker's descriptors, empties it, and
// sends the signal. The answer is complete when the signal is no longer pending and no thread is in
// the handler, which the kernel shows as a signal that the thread blocks. A worker without that
// file or handler is sent nothing, because the signal would kill it.
//
// Thread rule: one thread, any; nothing here blocks. Ownership: the caller owns the pidfd, which
// ensures that the signal cannot hit a process that reused the PID. It reads at most
// stack_bytes_max.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <optional>
#include <set>
#include <string>
#include <sys/types.h>

namespace ddprun::launcher::evidence {

// The real-time signals 34 to 64 have no fixed meaning. Libraries take the first ones, and often
// the last.
inline constexpr int stack_signal = 62;

inline constexpr std::size_t stack_bytes_max = 64 * 1024;

class stack_request {
 public:
  // Returns false if this worker cannot be asked.
  bool send(pid_t pid, int pidfd);

  // None: the answer is not complete yet. Otherwise the text; empty: the worker has written
  // nothing.
  std::optional<std::string> answer() const;

 private:
  std::set<pid_t> handling() const;

  pid_t pid_ = -1;
  unique_fd file_;
  std::set<pid_t> blocking_;  // threads that blocked the signal before it was sent
};

}  // namespace ddprun::launcher::evidence
