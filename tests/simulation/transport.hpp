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

// Encodes and decodes `message` as the two ends of a connection would. Without content, and with
// `problem` saying why, when the reader would end the session over it.
parcel transport(payload message, std::string& problem);

// Of the messages of one connection the newest of a kind replaces one that was not sent yet: status
// for status, desired for desired, answer for answer, beat for beat. 0: never replaced.
int replaceable_kind(const payload& message);

// One line for a transcript.
std::string to_text(const payload& message);

}  // namespace ddprun::simulation
