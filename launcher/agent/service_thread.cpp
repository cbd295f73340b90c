#include "launcher/agent/service_thread.hpp"

#include "rendezvous/net/threads.hpp"

#include <utility>

namespace ddprun {

service_thread::service_thread(std::function<void(const std::string&)> told)
    : told_(std::move(told)) {}

service_thread::~service_thread() {
  stop();
}

error_code service_thread::start() {
  if (thread_.joinable()) return {};
  work_.emplace(context_.get_executor());
  return net::start_thread(thread_, "ddprun-service", [this] { net::run_loop(context_, told_); });
}

void service_thread::stop() {
  if (!thread_.joinable()) return;
  ask_to_stop();
  thread_.join();
}

void service_thread::ask_to_stop() {
  work_.reset();
  context_.stop();
}

}  // namespace ddprun
