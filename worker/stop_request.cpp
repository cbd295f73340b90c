#include "worker/stop_request.hpp"

#include "rendezvous/base/error.hpp"

#include <atomic>

namespace ddprun::worker {
namespace {

std::atomic<bool> requested{false};
std::atomic<bool> is_held{false};

static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int) {
  requested = true;
}

}  // namespace

stop_request::stop_request() {
  DDPRUN_ASSERT(!is_held.exchange(true));
  requested = false;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // what the program is in the middle of goes on
  sigemptyset(&action.sa_mask);
  DDPRUN_ASSERT(::sigaction(SIGTERM, &action, &before_) == 0);
}

stop_request::~stop_request() {
  ::sigaction(SIGTERM, &before_, nullptr);
  is_held = false;
}

bool stop_request::has_come() const {
  return requested;
}

}  // namespace ddprun::worker
