#include "worker/stop_request.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace ddprun::worker {
namespace {

std::atomic<int> came{0};
std::atomic<bool> is_held{false};

static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  if (came != SIGTERM) came = number;
}

void give_back(const std::vector<std::pair<int, struct sigaction>>& handlers) {
  for (const auto& [number, before] : handlers)
    ::sigaction(number, &before, nullptr);
  is_held = false;
}

}  // namespace

stop_request::stop_request(std::initializer_list<int> signals) {
  if (is_held.exchange(true)) {
    throw std::logic_error(
        "stop_request: this process has one already, and its signals go to one only; end that one "
        "first, or give it to the training loop (`stop` of its options), which makes its own "
        "otherwise");
  }
  came = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // system calls of the program are restarted, not interrupted
  sigemptyset(&action.sa_mask);
  for (const int number : signals) {
    struct sigaction before {};
    if (::sigaction(number, &action, &before) != 0) {
      const std::string why = std::strerror(errno);
      give_back(before_);  // no destructor does
      throw std::invalid_argument("stop_request: signal " + std::to_string(number) + " (" +
                                  ::strsignal(number) + ") cannot be handled: " + why +
                                  "; name others, such as SIGTERM and SIGUSR1");
    }
    before_.emplace_back(number, before);
  }
}

stop_request::~stop_request() {
  give_back(before_);
}

int stop_request::signal() const {
  return came;
}

}  // namespace ddprun::worker
