// Sends ready-made bytes to a numeric address over TCP, with a time limit and without an event
// loop, which the guardian does not have.
//
// Thread rule: blocks the caller until `deadline` at most.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun::launcher {

enum class send_outcome {
  taken,    // the peer has read all bytes and closed its side
  refused,  // no program listens there
  failed,   // the connection broke, or nothing happened until the deadline
};

// `address` is IPv4 or IPv6 in digits; names are not resolved.
send_outcome send_bytes(const std::string& address, std::uint16_t port, const std::string& bytes,
                        std::chrono::steady_clock::time_point deadline);

}  // namespace ddprun::launcher
