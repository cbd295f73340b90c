// The master address is where workers and tethers dial the leader of a round.
//
// In order: what the person gave with --local-addr; loopback for a round of one node, because only
// its own workers dial, and the port need not be open to anybody else; the leader's own address
// towards the daemon; what the daemon sees; and, for a leader on the daemon's own host, the address
// at which the other members reached the daemon. IPv4 addresses mapped into IPv6 are unmapped.
// While a member is on another host, a loopback, link-local or unspecified address is passed over,
// unless it was given.
//
// Hosts are told apart by the addresses that the daemon sees, not by name: two hosts of one name
// are normal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::core {

struct node_addresses {
  std::string_view given;  // --local-addr; may be a name; empty: not given
  std::string_view own;    // of the agent's socket towards the daemon, as the agent says
  std::string_view seen;   // the same as the daemon sees it
  std::string_view local;  // the daemon's end
};

// `members` are all members in group rank order, the leader first. Empty when no address is known.
std::string choose_master_address(const std::vector<node_addresses>& members);

// "::ffff:10.0.0.1" becomes "10.0.0.1"; anything else stays.
std::string_view unmapped(std::string_view address);

bool is_loopback(std::string_view address);

// Whether the address leads nowhere from another host: loopback, link-local, unspecified or empty.
bool is_host_bound(std::string_view address);

}  // namespace ddprun::core
