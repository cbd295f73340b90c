// The agent protocol: one JSON object a line, between agents and the daemon and between tethers.
//
// Encoding never fails and never makes a line over `line_bytes_max`: text is made valid UTF-8, cut
// to its limit, and the tails of all causes but the first are left out when there is no room.
// Decoding takes a line apart completely before anything is used of it; unknown fields are ignored,
// absent ones keep the default of messages.hpp. PROTOCOL.md has the grammar.
//
// Units on the wire: durations are whole microseconds ("..._us"); instances and sessions are
// hexadecimal strings, all other numbers are integers up to `count_max`.
//
// Errors of decoding, with `problem` saying what is wrong and where ("status.causes[0].tail: 5000
// bytes, the limit is 4096"):
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

// Each ends with the newline.
std::string encode(const agent_message& message);
std::string encode(const daemon_message& message);
std::string encode(const tether_reply& message);

// `line` has no newline. `problem`, where given, is filled on failure only.
result<agent_message> decode_agent_message(std::string_view line, std::string* problem = nullptr);
result<daemon_message> decode_daemon_message(std::string_view line, std::string* problem = nullptr);
result<tether_reply> decode_tether_reply(std::string_view line, std::string* problem = nullptr);

}  // namespace ddprun::protocol
