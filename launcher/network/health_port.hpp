// The health port answers GET /healthz with "ok" while the agent's loop runs. It says nothing about
// the training: a Kubernetes probe decides whether this process must be killed, and a worker that
// hangs is handled by the agent.
//
// A client that sends nothing is disconnected after a while, and so is one that sends more than 8
// KiB; at most 16 are served at once.
//
// Thread rule: created and called by the main thread, on whose loop it runs.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/listener.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace ddprun::launcher {

class health_port {
 public:
  // `patience`: how long a client may be silent.
  explicit health_port(net::executor loop,
                       std::chrono::milliseconds patience = std::chrono::seconds(5));

  // Listens on every interface, because kubelet dials the pod's address; 0: the kernel picks the
  // port. Errors: those of bind(2).
  error_code open(std::uint16_t port);
  std::uint16_t port() const { return port_; }
  // Stops answering; the loop is not blocked.
  void close() { listener_.close(); }

 private:
  class client;

  net::listener listener_;
  std::uint16_t port_ = 0;
  std::chrono::milliseconds patience_;
  std::shared_ptr<std::size_t> clients_;
};

}  // namespace ddprun::launcher
