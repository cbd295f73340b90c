#include "rendezvous/server/port_shares.hpp"

#include <algorithm>

namespace ddprun::server {

port_shares::port_shares(std::size_t connections_max)
    : total_(std::max(connections_max, connections_min)) {
  const std::size_t part = total_ / 8;
  shares_ = {std::min(part, share_max), 3 * part, std::min(part, share_max),
             std::min(part, http_max)};
  most_ = {newcomers_max, total_, total_, http_max};
}

std::size_t port_shares::most(peer_kind kind) const {
  const auto index = static_cast<std::size_t>(kind);
  std::size_t left = total_;
  for (std::size_t each = 0; each < peer_kinds; ++each) {
    if (each != index) left -= shares_[each];
  }
  return std::min(left, most_[index]);
}

bool port_shares::admit(peer_kind kind, const peer_counts& now) const {
  const auto index = static_cast<std::size_t>(kind);
  if (now[index] >= most_[index]) return false;
  if (now[index] < shares_[index]) return true;
  // Connections that exist, and the unused shares of other kinds, which stay reserved.
  std::size_t taken = 0;
  for (std::size_t each = 0; each < peer_kinds; ++each) {
    taken += each == index ? now[each] : std::max(now[each], shares_[each]);
  }
  return taken < total_;
}

}  // namespace ddprun::server
