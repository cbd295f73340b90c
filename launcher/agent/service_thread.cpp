#include "launcher/agent/service_thread.hpp"

#include "rendezvous/net/threads.hpp"

namespace ddprun {

service_thread::service_thread() = default;

service_thread::~service_thread() {
  stop();
}

error_code service_thread::start() {
  if (thread_.joinable()) return {};
  work_.emplace(context_.get_executor());
  return net::start_thread(thread_, "ddprun-service", [this] { context_.run(); });
}

void service_thread::stop() {
  if (!thread_.joinable()) return;
  work_.reset();
  context_.stop();
  thread_.join();
}

}  // namespace ddprun
