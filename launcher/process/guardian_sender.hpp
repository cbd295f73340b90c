// Sends ready-made bytes to a numeric address over TCP, with a limit, and without the agent's
// machinery: the guardian has no event loop.
//
// Thread rule: blocks the caller for at most the time until `deadline`.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun::launcher {

enum class send_outcome {
  taken,    // the peer had all bytes and ended its side
  refused,  // its host says that nobody listens there
  failed,   // it broke the connection, or did nothing until the deadline
};

// `address` is IPv4 or IPv6 in digits; names are not looked up.
send_outcome send_bytes(const std::string& address, std::uint16_t port, const std::string& bytes,
                        std::chrono::steady_clock::time_point deadline);

}  // namespace ddprun::launcher
