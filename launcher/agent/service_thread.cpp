#include "launcher/agent/service_thread.hpp"

#include "rendezvous/net/signals_blocked.hpp"

#include <pthread.h>

namespace ddprun {

service_thread::service_thread() = default;

service_thread::~service_thread() {
  stop();
}

void service_thread::start() {
  if (thread_.joinable()) return;
  work_.emplace(context_.get_executor());
  const signals_blocked blocked;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "ddprun-service");
    context_.run();
  });
}

void service_thread::stop() {
  if (!thread_.joinable()) return;
  work_.reset();
  context_.stop();
  thread_.join();
}

}  // namespace ddprun
