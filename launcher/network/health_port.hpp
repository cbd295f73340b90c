// The health port answers GET /healthz with "ok" as long as the agent's loop turns. It says nothing
// of the training: what a probe of Kubernetes asks is whether this process has to be ended, and a
// worker that hangs is the agent's to end.
//
// A client that says nothing is cut off after a while, as is one that says more than 8 KiB; no more
// than 16 are heard at once.
//
// Thread rule: made and called by the main thread, on whose loop it lives.
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
  // `patience`: how long a client may say nothing.
  explicit health_port(net::executor loop,
                       std::chrono::milliseconds patience = std::chrono::seconds(5));

  // On every interface, as kubelet dials the pod's address; 0: at a port of the kernel's choice.
  // Errors: those of bind(2).
  error_code open(std::uint16_t port);
  std::uint16_t port() const { return port_; }
  // No request is answered from now on; the loop is not held up.
  void close() { listener_.close(); }

 private:
  class client;

  net::listener listener_;
  std::uint16_t port_ = 0;
  std::chrono::milliseconds patience_;
  std::shared_ptr<std::size_t> clients_;
};

}  // namespace ddprun::launcher
