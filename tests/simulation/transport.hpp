// What the simulated network carries, and the one place where a message becomes bytes and back.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <variant>

namespace ddprun::simulation {

using payload = std::variant<agent_message, std::shared_ptr<const daemon_message>, tether_reply>;

struct parcel {
  std::shared_ptr<const payload> content;
  std::size_t bytes = 0;     // on the wire
  std::uint64_t number = 0;  // within its direction of its connection
  bool last = false;         // FIN: nothing follows
};

// Encodes and decodes `message` as the two ends of a connection would. If the reader would end the
// session because of it, the result has no content, and `problem` says why.
parcel transport(payload message, std::string& problem);

// On one connection the newest message of a kind replaces one that was not sent yet: a status a
// status, a desired a desired, an ack an ack, a beat a beat. 0: such a message is never replaced.
int replaceable_kind(const payload& message);

// One line for a transcript.
std::string to_text(const payload& message);

}  // namespace ddprun::simulation
