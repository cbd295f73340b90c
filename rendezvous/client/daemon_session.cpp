#include "rendezvous/client/daemon_session.hpp"

#include "rendezvous/protocol/agent_protocol.hpp"

#include <utility>

namespace ddprun::client {
namespace {

line_client::handlers adapt(daemon_session::handlers told) {
  line_client::handlers adapted;
  adapted.connected = std::move(told.connected);
  adapted.disconnected = std::move(told.disconnected);
  adapted.line = [deliver = std::move(told.message)](std::string_view line, std::string& problem) {
    auto message = protocol::decode_daemon_message(line, &problem);
    if (!message) {
      problem = "the answer cannot be read: " + problem;
      return false;
    }
    deliver(std::make_shared<const daemon_message>(std::move(*message)));
    return true;
  };
  return adapted;
}

}  // namespace

daemon_session::daemon_session(net::executor where, handlers told, client_limits limits)
    : client_(where, adapt(std::move(told)), limits) {}

void daemon_session::connect(std::string host, std::uint16_t port, duration delay) {
  client_.dial(std::move(host), port, delay);
}

void daemon_session::send(const agent_message& message) {
  if (client_.is_connected()) client_.send(message.index(), protocol::encode(message));
}

}  // namespace ddprun::client
