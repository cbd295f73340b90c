// A packet is one message over a Unix SOCK_SEQPACKET socket; it may carry descriptors (SCM_RIGHTS).
//
// Thread rule: any thread. Errors: the system's. Nothing here waits.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::net {

inline constexpr std::size_t packet_bytes_max = 4096;
inline constexpr std::size_t packet_descriptors_max = 4;

struct packet {
  std::string text;
  std::vector<unique_fd> descriptors;
};

struct socket_pair {
  unique_fd ours;  // does not block
  unique_fd theirs;
};

result<socket_pair> make_packet_sockets();

error_code send_packet(int to, std::string_view text, const std::vector<int>& descriptors = {});

// An empty text means that the other side is gone, would_block that there is no packet now.
result<packet> receive_packet(int from);

}  // namespace ddprun::net
