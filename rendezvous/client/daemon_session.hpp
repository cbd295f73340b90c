// A daemon session is the agent's end of its connection to the daemon: the effects connect_daemon,
// send_to_daemon and disconnect_daemon of core::agent go in; daemon_connected, daemon_said and
// daemon_disconnected come out.
//
// The owner sends the hello when `connected` comes. A message replaces an unsent one of its kind.
//
// Thread rule: one thread, that of the executor. Callbacks come from the loop, never from inside a
// call; after `disconnect`, `finish` or destruction there is none. It may be destroyed at any time,
// also inside a callback, but before its io_context.
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

  // After `delay`. Ends with `connected` or `disconnected`; drops an earlier connection.
  void connect(std::string host, std::uint16_t port, duration delay = {});

  // Queues; without a connection the message is dropped (all is said again on the next one).
  void send(const agent_message& message);

  void disconnect() { client_.drop(); }
  bool is_connected() const { return client_.is_connected(); }
  // The daemon's, numeric; empty without a connection.
  std::string peer_address() const { return client_.peer_address(); }

  // Sends what is queued, then closes, within `limit`; then `done`, from the loop. With the session
  // destroyed meanwhile the sending goes on for as long as the loop runs.
  void finish(duration limit, std::function<void()> done) {
    client_.finish(limit, std::move(done));
  }

 private:
  line_client client_;
};

}  // namespace ddprun::client
