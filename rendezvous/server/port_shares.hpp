// Port shares decide which peer may have one more of a port's connections: each kind of peer has a
// reserved share, and the rest is first come, first served.
//
// Agents have three eighths, because a running job must always be able to reconnect; the other
// kinds have one eighth each, or less. Newcomers are peers whose first message is incomplete, and
// peers that are leaving.
#pragma once

#include <array>
#include <cstddef>

namespace ddprun::server {

enum class peer_kind : std::size_t { newcomer, agent, tcpstore, http };
inline constexpr std::size_t peer_kinds = 4;

using peer_counts = std::array<std::size_t, peer_kinds>;  // by kind

class port_shares {
 public:
  // Upper limits, however many connections there may be. HTTP is for a few people and probes; the
  // port's backlog holds as many newcomers again.
  static constexpr std::size_t newcomers_max = 4096;
  static constexpr std::size_t http_max = 64;
  // The largest share that is reserved for newcomers and for TCPStore clients.
  static constexpr std::size_t share_max = 256;

  // With fewer connections than `connections_min`, that many are assumed: each kind has at least
  // one.
  static constexpr std::size_t connections_min = 8;
  explicit port_shares(std::size_t connections_max);

  bool admit(peer_kind kind, const peer_counts& now) const;
  std::size_t total() const { return total_; }
  // How many of a kind always find room.
  std::size_t share(peer_kind kind) const { return shares_[static_cast<std::size_t>(kind)]; }
  // How many of a kind find room if the others use no more than their shares.
  std::size_t most(peer_kind kind) const;

 private:
  std::size_t total_;
  peer_counts shares_;
  peer_counts most_;
};

}  // namespace ddprun::server
