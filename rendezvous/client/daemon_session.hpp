// A daemon session is the agent's end of its connection to the daemon. It applies the effects
// connect_daemon, send_to_daemon and disconnect_daemon of core::agent, and reports the events
// daemon_connected, daemon_said and daemon_disconnected.
//
// The owner sends the hello when `connected` is called. A message replaces an unsent one of its
// kind.
//
// Thread rule: one thread, that of the executor. Callbacks are called from the loop, never from
// inside a call, and not after `disconnect`, `finish` or destruction. It may be destroyed at any
// time before its io_context, also inside a callback.
#pragma once

#include "rendezvous/client/line_client.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <functional>
#include <memory>
#include <string>

namespace ddprun::client {

class daemon_session {
 public:
  struct handlers {
    std::function<void(std::string own_address)> connected;  // numeric
    std::function<void(std::shared_ptr<const daemon_message> message)> message;
    std::function<void(std::string text)> disconnected;  // names endpoint, address and error
  };

  daemon_session(net::executor where, handlers told, client_limits limits = {});

  // Connects after `delay` and drops an earlier connection. Ends with `connected` or
  // `disconnected`.
  void connect(std::string host, std::uint16_t port, duration delay = {});

  // Queues a message. Without a connection it is dropped: the next one starts with everything
  // again.
  void send(const agent_message& message);

  void disconnect() { client_.drop(); }
  bool is_connected() const { return client_.is_connected(); }
  // The daemon's numeric address; empty without a connection.
  std::string peer_address() const { return client_.peer_address(); }

  // Sends what is queued, then closes, within `limit`; then calls `done` from the loop. If the
  // session is destroyed meanwhile, the sending continues as long as the loop runs.
  void finish(duration limit, std::function<void()> done) {
    client_.finish(limit, std::move(done));
  }

 private:
  line_client client_;
};

}  // namespace ddprun::client
