// A listener accepts TCP connections on one port and hands each to its owner.
//
// Without an address it listens on all of them, IPv6 and IPv4 on one socket ([::], or 0.0.0.0 if
// the host has no IPv6). When the process runs out of descriptors or memory, it says so once,
// pauses and continues; connections wait in the backlog. Peers whose machines vanish are noticed
// (keep_alive.hpp).
//
// Thread rule: one thread, that of the executor. Handlers are called from the loop, and not after
// `close` or destruction. Ownership: owns the listening socket; accepted sockets belong to the
// handler.
#pragma once

#include "rendezvous/net/keep_alive.hpp"
#include "rendezvous/net/net_types.hpp"

#include <functional>
#include <memory>
#include <string>

namespace ddprun::net {

inline constexpr int listen_backlog = 4096;

struct listener_handlers {
  std::function<void(tcp::socket socket)> on_accept;
  std::function<void(const std::string& text)> on_trouble;  // may be empty
};

// Returns the port of a listening TCP socket; `problem` as in listener::adopt.
result<std::uint16_t> listening_port(int descriptor, std::string& problem);

class listener {
 public:
  explicit listener(executor where, keep_alive limits = {})
      : executor_(std::move(where)), keep_alive_(limits) {}
  ~listener() { close(); }
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;

  // Port 0 picks a free one. Returns the port. On failure `problem` names address, port and the
  // system's error: "cannot listen on [::]:29400: Address already in use".
  result<std::uint16_t> open(const std::string& address, std::uint16_t port, std::string& problem);

  // Takes over a socket that another process or systemd has bound and that already listens, with
  // the connections in its backlog. Returns its port. The descriptor is owned from here on, even on
  // failure; then `problem` says what is wrong with it.
  result<std::uint16_t> adopt(int descriptor, std::string& problem);

  // Starts to accept; before that, connections wait in the backlog.
  void start(listener_handlers handlers);
  void close();

  struct state;

 private:
  executor executor_;
  keep_alive keep_alive_;
  std::shared_ptr<state> state_;
};

}  // namespace ddprun::net
