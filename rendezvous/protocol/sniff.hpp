// Tells by the first bytes of a connection which protocol a peer speaks to the daemon's one port.
//
// The answer never changes once it is given for a prefix: more bytes only turn `undecided` into
// something else, and at most `sniff_bytes_max` bytes are ever needed.
#pragma once

#include <cstddef>
#include <string_view>

namespace ddprun::protocol {

enum class wire {
  undecided,  // needs more bytes
  agent,      // '{': one JSON object a line (agent.hpp)
  tcpstore,   // 0x00: the validate request that opens every TCPStore connection
  http,       // a request line
  tls,        // 0x16, a TLS record of a handshake: kept for later
  unknown,    // a stranger: close without an answer
};

inline constexpr std::size_t sniff_bytes_max = 8;

wire sniff(std::string_view first_bytes);

// What the first line of the agent protocol, as every agent writes it, opens: a tether, which
// belongs to the leader of a round, or an agent's session. `agent_sniff_bytes` are enough.
enum class agent_line { undecided, session, tether };

inline constexpr std::size_t agent_sniff_bytes = 16;

agent_line sniff_agent_line(std::string_view first_bytes);

std::string_view to_string(wire value);

}  // namespace ddprun::protocol
