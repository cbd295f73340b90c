// A stop request is SIGTERM, as a question that a training loop asks between two steps: the
// launcher sends it before it ends a worker, and waits for a grace period, in which a snapshot can
// be saved.
//
// It comes to ranks at different moments, and they must save the same step: let them agree first
// (process_group::any).
//
// Thread rule: any thread may ask. One object at a time: it holds the process's handler, and gives
// the one before it back.
#pragma once

#include <signal.h>

namespace ddprun::worker {

class stop_request {
 public:
  stop_request();
  ~stop_request();
  stop_request(const stop_request&) = delete;
  stop_request& operator=(const stop_request&) = delete;

  bool has_come() const;

 private:
  struct sigaction before_ {};
};

// What a program that ends for it gives to exit(): 128 + SIGTERM, as the shell has it.
constexpr int stopped_status = 128 + SIGTERM;

}  // namespace ddprun::worker
