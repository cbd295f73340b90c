// Says whether who has dialled a port of ours is another user of this host, who is not to speak for
// our nodes: TCP itself asks nobody.
//
// The kernel is asked for the socket at the other end, by its four numbers (NETLINK_SOCK_DIAG): one
// question and one answer, in the time of a hash look-up, however many sockets there are. Where it
// finds none the peer is on another host, in another network namespace, or behind a translation of
// addresses; a user that is not mapped into our user namespace has no number here; and a kernel may
// lack the module (inet_diag, tcp_diag). All of these are let in.
//
// Ownership: of one netlink socket.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/types.hpp"

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
  // Lasts for all questions: a process that is out of descriptors can still ask.
  peer_users();

  // Empty: root, our own user, or one that cannot be known. Else why the peer of `socket`, which is
  // connected, is to be refused: one line, and what to do.
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
  std::vector<std::pair<std::uint64_t, std::uint64_t>> mapped_;  // users: first, count
  std::optional<std::uint32_t> stands_for_;  // all that are not mapped; none: there are none
};

}  // namespace ddprun::net
