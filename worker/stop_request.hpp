// A stop request turns a signal into a question that a training loop asks between two steps. The
// launcher sends SIGTERM before it ends a worker and then waits for a grace period, in which a
// snapshot can be saved. A batch system can be told to send SIGUSR1 ahead of its time limit, and
// ddprun passes that on to workers that have a handler for it.
//
// The signal reaches the ranks at different times, and they must save the same step: let them agree
// first (process_group::any).
//
// Thread rule: any thread may ask. One object at a time: it holds the process's handlers, and gives
// those before it back. A training loop makes its own unless it is given one.
// Errors: std::logic_error: there is one already; std::invalid_argument: a signal that no program
// can handle. Nothing is changed then.
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
  // The last signal that came, except that SIGTERM is never replaced; 0 if none has come.
  int signal() const;

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

// The exit status of a program that ends because of SIGTERM: 128 + SIGTERM, as in a shell. One that
// ends because of SIGUSR1 exits with 0: it has done what was asked, and must not be restarted.
constexpr int stopped_status = 128 + SIGTERM;

}  // namespace ddprun::worker
