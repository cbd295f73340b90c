#include "launcher/agent/socket_thread.hpp"

#include "rendezvous/net/threads.hpp"

#include <utility>

namespace ddprun::launcher {

socket_thread::socket_thread(std::function<void(const std::string&)> told)
    : told_(std::move(told)) {}

socket_thread::~socket_thread() {
  stop();
}

error_code socket_thread::start() {
  if (thread_.joinable()) return {};
  work_.emplace(context_.get_executor());
  return net::start_thread(thread_, "ddprun-sockets", [this] { net::run_loop(context_, told_); });
}

void socket_thread::stop() {
  if (!thread_.joinable()) return;
  ask_to_stop();
  thread_.join();
}

void socket_thread::ask_to_stop() {
  work_.reset();
  context_.stop();
}

}  // namespace ddprun::launcher
