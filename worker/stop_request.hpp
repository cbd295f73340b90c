// A stop request is a signal, as a question that a training loop asks between two steps. The
// launcher sends SIGTERM before it ends a worker, and waits for a grace period, in which a snapshot
// can be saved; a batch system sends SIGUSR1 ahead of its time limit, where it was told to, and
// ddprun passes that on to workers that have a handler for it.
//
// It comes to ranks at different moments, and they must save the same step: let them agree first
// (process_group::any).
//
// Thread rule: any thread may ask. One object at a time: it holds the process's handlers, and gives
// those before it back.
#pragma once

#include <initializer_list>
#include <signal.h>
#include <utility>
#include <vector>

namespace ddprun::worker {

class stop_request {
 public:
  explicit stop_request(std::initializer_list<int> signals = {SIGTERM, SIGUSR1});
  ~stop_request();
  stop_request(const stop_request&) = delete;
  stop_request& operator=(const stop_request&) = delete;

  bool has_come() const { return signal() != 0; }
  // The one that came last, but none after SIGTERM; 0: none has come.
  int signal() const;

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

// What a program that ends for SIGTERM gives to exit(): 128 + SIGTERM, as the shell has it. One
// that ends for SIGUSR1 gives 0: it has done what it was asked for, and must not be started again.
constexpr int stopped_status = 128 + SIGTERM;

}  // namespace ddprun::worker
