// A listener accepts TCP connections on one port and hands each to its owner.
//
// Without an address it listens on all of them, IPv6 and IPv4 on one socket ([::], or 0.0.0.0 where
// the host has no IPv6). When the process is out of descriptors or of memory, it says so once,
// pauses, and goes on: the connections wait in the backlog. Peers whose machines vanish are noticed
// (keep_alive.hpp).
//
// Thread rule: one thread, that of the executor. Handlers come from the loop; after `close` or
// destruction there is none. Ownership: the socket's; accepted sockets belong to the handler.
#pragma once

#include "rendezvous/net/keep_alive.hpp"
#include "rendezvous/net/types.hpp"

#include <functional>
#include <memory>
#include <string>

namespace ddprun::net {

inline constexpr int listen_backlog = 4096;

struct listener_handlers {
  std::function<void(tcp::socket socket)> on_accept;
  std::function<void(const std::string& text)> on_trouble;  // may be empty
};

// The port of such a socket; `problem` as in listener::adopt.
result<std::uint16_t> listening_port(int descriptor, std::string& problem);

class listener {
 public:
  explicit listener(executor where, keep_alive limits = {})
      : executor_(std::move(where)), keep_alive_(limits) {}
  ~listener() { close(); }
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;

  // Port 0 picks a free one. Returns the port. On failure `problem` names address, port and what
  // the system said: "cannot listen on [::]:29400: Address already in use".
  result<std::uint16_t> open(const std::string& address, std::uint16_t port, std::string& problem);

  // Takes a socket that is bound and listens already, whoever opened it, with what waits in its
  // backlog. Returns its port; its own from then on, also when it is none: then `problem` says what
  // it is instead.
  result<std::uint16_t> adopt(int descriptor, std::string& problem);

  // Begins to accept; until then connections wait in the backlog.
  void start(listener_handlers handlers);
  void close();

  struct state;

 private:
  executor executor_;
  keep_alive keep_alive_;
  std::shared_ptr<state> state_;
};

}  // namespace ddprun::net
