// A stack_request asks one worker for the Python stacks of its threads, and reads the answer.
//
// A worker that began with ddprun_stacks.py has a handler of `stack_signal` that writes them into a
// file of its memory. The request looks for that file among the worker's descriptors, empties it,
// and sends the signal. The answer is whole when the signal is no longer pending and no thread is
// in the handler, which the kernel shows as a signal that the thread blocks. A worker without such
// a file, or without a handler, is sent nothing: the signal would end it.
//
// Thread rule: one thread, any; nothing here waits. Ownership: the pidfd is the caller's, and makes
// sure that the signal goes to the process that was meant. Reads at most stack_bytes_max.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <optional>
#include <set>
#include <string>
#include <sys/types.h>

namespace ddprun::launcher::evidence {

// Of 34 to 64, which are nobody's: not the first ones, which libraries take, nor the last.
inline constexpr int stack_signal = 62;

inline constexpr std::size_t stack_bytes_max = 64 * 1024;

class stack_request {
 public:
  // False: this worker cannot be asked.
  bool send(pid_t pid, int pidfd);

  // None: it has not answered, or not finished. Once it has, the text; empty where it could not.
  std::optional<std::string> answer() const;

 private:
  std::set<pid_t> handling() const;

  pid_t pid_ = -1;
  unique_fd file_;
  std::set<pid_t> blocking_;  // threads that block the signal, before it was sent
};

}  // namespace ddprun::launcher::evidence
