// Port shares say who may have one more of a port's connections: each kind of peer has a share that
// the others cannot take, and what is nobody's share is for whoever comes first.
//
// Agents have three eighths, for a running job must always be able to come back, the others one
// each or less. Newcomers are all those who have not said in full what they want, and those who are
// on their way out.
#pragma once

#include <array>
#include <cstddef>

namespace ddprun::server {

enum class peer_kind : std::size_t { newcomer, agent, tcpstore, http };
inline constexpr std::size_t peer_kinds = 4;

using peer_counts = std::array<std::size_t, peer_kinds>;  // by kind

class port_shares {
 public:
  // Also where there is room for more. HTTP is for a few people and probes; the backlog of the port
  // itself holds as many newcomers again.
  static constexpr std::size_t newcomers_max = 4096;
  static constexpr std::size_t http_max = 64;
  // Of newcomers and of TCPStore; more is not kept for them.
  static constexpr std::size_t share_max = 256;

  // Of no fewer connections than `connections_min`: each kind has one at least.
  static constexpr std::size_t connections_min = 8;
  explicit port_shares(std::size_t connections_max);

  bool admit(peer_kind kind, const peer_counts& now) const;
  std::size_t total() const { return total_; }
  // So many are sure to find room.
  std::size_t share(peer_kind kind) const { return shares_[static_cast<std::size_t>(kind)]; }
  // So many find room while the others take no more than their shares.
  std::size_t most(peer_kind kind) const;

 private:
  std::size_t total_;
  peer_counts shares_;
  peer_counts most_;
};

}  // namespace ddprun::server
