// A tether client is a member's end of its tether to the leader. It applies the effects
// dial_tether, send_tether_beat and drop_tether of core::agent, and reports the events
// tether_connected, tether_acked and tether_disconnected. The owner keeps track of the round.
//
// `connected` means that the TCP connection is established and the hello is queued; the leader's
// ack of the hello follows as `answered(0)`.
//
// Thread rule and lifetime: as daemon_session.
#pragma once

#include "rendezvous/client/line_client.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace ddprun::client {

class tether_client {
 public:
  struct handlers {
    std::function<void()> connected;
    std::function<void(std::uint64_t seq)> answered;
    std::function<void(std::string text)> disconnected;  // also after a refusal
  };

  tether_client(net::executor where, handlers told, client_limits limits = {});

  // Dials after `delay` and drops an earlier tether.
  void dial(std::string address, std::uint16_t port, duration delay, const tether_hello& hello);

  // A beat replaces an unsent one.
  void beat(const tether_beat& word);

  void drop() { client_.drop(); }
  bool is_connected() const { return client_.is_connected(); }

 private:
  handlers handlers_;
  tether_hello hello_;
  line_client client_;
};

}  // namespace ddprun::client
