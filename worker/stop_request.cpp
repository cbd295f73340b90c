#include "worker/stop_request.hpp"

#include "rendezvous/base/error.hpp"

#include <atomic>

namespace ddprun::worker {
namespace {

std::atomic<int> came{0};
std::atomic<bool> is_held{false};

static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  if (came != SIGTERM) came = number;
}

}  // namespace

stop_request::stop_request(std::initializer_list<int> signals) {
  DDPRUN_ASSERT(!is_held.exchange(true));
  came = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // system calls of the program are restarted, not interrupted
  sigemptyset(&action.sa_mask);
  for (const int number : signals) {
    struct sigaction before {};
    DDPRUN_ASSERT(::sigaction(number, &action, &before) == 0);
    before_.emplace_back(number, before);
  }
}

stop_request::~stop_request() {
  for (const auto& [number, before] : before_)
    ::sigaction(number, &before, nullptr);
  is_held = false;
}

int stop_request::signal() const {
  return came;
}

}  // namespace ddprun::worker
