// What a store connection has to know of a question beside its bytes: whether it keeps the limits
// of the protocol, how it is called, and how it is shown to a person.
#pragma once

#include "rendezvous/protocol/tcpstore.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ddprun::worker {

// True for what a TCPStore does not answer.
bool has_no_reply(protocol::tcpstore::opcode code);
// True for what a CANCEL_WAIT takes back.
bool is_wait(protocol::tcpstore::opcode code);

// The limit that the question breaks, as a sentence; empty when there is none. A server closes the
// connection over it.
std::string broken_limit(protocol::tcpstore::opcode code,
                         std::span<const std::string_view> strings);

// "WAIT for 'a', 'b' and 5 more": keys without the "/" that the client put in front, cut, and on
// one line whatever is in them.
std::string question_text(protocol::tcpstore::opcode code,
                          std::span<const std::string_view> strings);

}  // namespace ddprun::worker
