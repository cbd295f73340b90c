// Port shares say who may have one more of a port's connections: each kind of peer has a share that
// the others cannot take, and what is nobody's share is for whoever comes first.
//
// Agents have three eighths, for a running job must always be able to come back, the others one
// each or less. Newcomers are all those who have not said in full what they want, and those who are
// on their way out.
//
// Thread rule: pure.
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

  // Of no fewer connections than `connections_min`: each kind has one at least.
  static constexpr std::size_t connections_min = 8;
  explicit port_shares(std::size_t connections_max);

  bool admit(peer_kind kind, const peer_counts& now) const;
  std::size_t total() const { return total_; }

 private:
  std::size_t total_;
  peer_counts shares_;
  peer_counts most_;
};

}  // namespace ddprun::server
