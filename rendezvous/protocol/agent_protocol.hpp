// The agent protocol: one JSON object per line, between agents and the daemon, and on tethers.
//
// Encoding never fails and never makes a line longer than `line_bytes_max`: text is made valid
// UTF-8 and cut to its limit, and if there is no room, only the first of the causes keeps its tail.
// Decoding reads a whole line before any of it is used; unknown fields are ignored, and absent ones
// have the default of messages.hpp. PROTOCOL.md has the grammar.
//
// Units on the wire: durations are whole microseconds ("..._us"); instances and sessions are
// hexadecimal strings, all other numbers are integers up to `count_max`.
//
// Errors of decoding; `problem` says what is wrong and where ("status.causes[0].tail: 5000 bytes,
// the limit is 4096"):
//   malformed_message  not JSON, or a field of the wrong type or out of its range
//   message_too_long   a line, text or list over its limit
//   unknown_message    a type or phase that this version does not know
//   version_mismatch   a hello of another protocol version
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::protocol {

inline constexpr std::size_t text_bytes_max = 1024;  // sentences for people

// All three end with a newline.
std::string encode(const agent_message& message);
std::string encode(const daemon_message& message);
std::string encode(const tether_reply& message);

// `line` has no newline. `problem` is only filled on failure.
result<agent_message> decode_agent_message(std::string_view line, std::string* problem = nullptr);
result<daemon_message> decode_daemon_message(std::string_view line, std::string* problem = nullptr);
result<tether_reply> decode_tether_reply(std::string_view line, std::string* problem = nullptr);

}  // namespace ddprun::protocol
