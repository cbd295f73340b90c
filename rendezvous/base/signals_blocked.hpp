// Blocks all signals of the calling thread while it exists.
//
// Used around every fork: a handler of ours that ran in the child would write into the parent's
// pipes, and a signal that arrives before the child has set its own handlers would kill it.
//
// Thread rule: created and destroyed by the same thread.
#pragma once

#include <csignal>

namespace ddprun {

class signals_blocked {
 public:
  signals_blocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;

  const sigset_t& before() const { return before_; }  // the mask that is restored

 private:
  sigset_t before_;
};

}  // namespace ddprun
