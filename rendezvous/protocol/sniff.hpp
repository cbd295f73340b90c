// Recognises the protocol of a connection to the daemon's port by its first bytes.
//
// Once given, the answer for a prefix never changes: more bytes can only decide `undecided`, and at
// most `sniff_bytes_max` bytes are needed.
#pragma once

#include <cstddef>
#include <string_view>

namespace ddprun::protocol {

enum class wire {
  undecided,  // needs more bytes
  agent,      // '{': one JSON object per line (agent_protocol.hpp)
  tcpstore,   // 0x00: the VALIDATE request that starts every TCPStore connection
  http,       // a request line
  tls,        // 0x16: a TLS handshake record, not supported
  unknown,    // a stranger, to be closed without an answer
};

inline constexpr std::size_t sniff_bytes_max = 8;

wire sniff(std::string_view first_bytes);

// What the first line of the agent protocol opens, as every agent writes it: a tether to the leader
// of a round, or an agent's session. `agent_sniff_bytes` are enough to decide.
enum class agent_line { undecided, session, tether };

inline constexpr std::size_t agent_sniff_bytes = 16;

agent_line sniff_agent_line(std::string_view first_bytes);

std::string_view to_string(wire value);

}  // namespace ddprun::protocol
