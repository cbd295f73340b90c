#include "launcher/agent/service_thread.hpp"

#include <pthread.h>
#include <signal.h>

namespace ddprun {

service_thread::service_thread() = default;

service_thread::~service_thread() {
  stop();
}

void service_thread::start() {
  if (thread_.joinable()) return;
  work_.emplace(context_.get_executor());
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "ddprun-service");
    context_.run();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void service_thread::stop() {
  if (!thread_.joinable()) return;
  work_.reset();
  context_.stop();
  thread_.join();
}

}  // namespace ddprun
