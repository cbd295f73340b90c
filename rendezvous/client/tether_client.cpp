#include "rendezvous/client/tether_client.hpp"

#include "rendezvous/protocol/agent_protocol.hpp"

#include <utility>
#include <variant>

namespace ddprun::client {

tether_client::tether_client(net::executor where, handlers told, client_limits limits)
    : handlers_(std::move(told)),
      client_(where,
              {.connected =
                   [this](const std::string&) {
                     const agent_message message = hello_;
                     client_.send(message.index(), protocol::encode(message));
                     // A copy: the owner may destroy this client in the callback.
                     const auto connected = handlers_.connected;
                     connected();
                   },
               .line =
                   [this](std::string_view line, std::string& problem) {
                     const auto reply = protocol::decode_tether_reply(line, &problem);
                     if (!reply) {
                       problem = "the answer cannot be read: " + problem;
                       return false;
                     }
                     if (const auto* no = std::get_if<refused>(&*reply)) {
                       problem = "refused: " + no->text;
                       return false;
                     }
                     const auto answered = handlers_.answered;
                     answered(std::get<tether_ack>(*reply).seq);
                     return true;
                   },
               .disconnected =
                   [this](std::string text) {
                     const auto disconnected = handlers_.disconnected;
                     disconnected(std::move(text));
                   }},
              limits) {}

void tether_client::dial(std::string address, std::uint16_t port, duration delay,
                         const tether_hello& hello) {
  hello_ = hello;
  client_.dial(std::move(address), port, delay);
}

void tether_client::beat(const tether_beat& word) {
  if (!client_.is_connected()) return;
  const agent_message message = word;
  client_.send(message.index(), protocol::encode(message));
}

}  // namespace ddprun::client
