// Decides whether the peer of a connection is another user of this host, who must not speak for our
// nodes: TCP itself does not check users.
//
// The kernel is asked for the socket at the other end by its addresses and ports
// (NETLINK_SOCK_DIAG): one question and one answer, in the time of a hash look-up, however many
// sockets there are. If it finds none, the peer is on another host, in another network namespace,
// or behind NAT. A user that is not mapped into our user namespace has no uid here, and a kernel
// may lack the module (inet_diag, tcp_diag). In all these cases the peer is accepted.
//
// Ownership: owns one netlink socket.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/net_types.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::net {

inline constexpr std::string_view allow_other_users_option = "--allow-other-users";

class peer_users {
 public:
  // Opens the socket for all questions, so that a process that is out of descriptors can still ask.
  peer_users();

  // Empty if the peer is root, our own user or unknown; otherwise one line that says why the peer
  // of the connected `socket` is refused, and what to do.
  std::string refusal(tcp::socket& socket);

 private:
  enum class found { nothing, user, leaving };
  struct answer {
    found what = found::nothing;
    std::uint32_t user = 0;
  };

  answer ask(const tcp::endpoint& local, const tcp::endpoint& remote);
  answer owner_of_peer(tcp::socket& socket);
  bool is_mapped(std::uint32_t user) const;

  unique_fd netlink_;
  std::uint32_t last_question_ = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> mapped_;  // (first uid, count)
  std::optional<std::uint32_t> stands_for_;  // the overflow uid; empty if every uid is mapped
};

}  // namespace ddprun::net
