// What a store connection needs to know about a question besides its bytes: whether it gets a
// reply, whether it keeps the protocol's limits, and how to describe it to a person.
#pragma once

#include "rendezvous/protocol/tcpstore.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ddprun::worker {

// True for requests that a TCPStore does not reply to.
bool has_no_reply(protocol::tcpstore::opcode code);
// True for requests that CANCEL_WAIT cancels.
bool is_wait(protocol::tcpstore::opcode code);

// A text that names the limit that the question exceeds, or an empty one. A server closes the
// connection on such a question.
std::string broken_limit(protocol::tcpstore::opcode code,
                         std::span<const std::string_view> strings);

// "WAIT for 'a', 'b' and 5 more": the keys without the "/" that the client puts in front,
// shortened, and always on one line.
std::string question_text(protocol::tcpstore::opcode code,
                          std::span<const std::string_view> strings);

}  // namespace ddprun::worker
