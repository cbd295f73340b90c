// Decides on which addresses the round's port listens, given the address that workers and other
// members are told.
//
// It always listens on loopback, for this node's workers, because scripts overwrite MASTER_ADDR
// with "localhost". Otherwise only on the address that is told; but on every interface if nobody
// here can know where clients arrive:
//   - the address is not this host's (it belongs to the container's host or a NAT, which forwards
//     connections to an address of ours);
//   - it is a name, which other hosts may resolve to another of our addresses;
//   - an older daemon has not told it.
//
// Thread rule: listen_addresses may be called from any thread; it asks the kernel, never a name
// server.
#pragma once

#include "rendezvous/net/resolve.hpp"

#include <boost/asio/ip/address.hpp>

#include <functional>
#include <string>
#include <vector>

namespace ddprun::launcher {

// `told`: every address that a client may dial. The result is numeric; empty: every interface.
std::vector<std::string> listen_addresses(const std::vector<boost::asio::ip::address>& told);

// The same for an address or name as text; a name is resolved only if all clients are on this host.
// Calls `found` once, at once or from the resolver's loop.
void find_listen_addresses(net::resolver& resolver, const std::string& told, bool has_other_nodes,
                           const std::function<void(std::vector<std::string> addresses)>& found);

}  // namespace ddprun::launcher
