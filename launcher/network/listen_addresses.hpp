// Says on which addresses the round's port listens, given the one that workers and the other
// members are told.
//
// Always on loopback, for workers of this node that come by it whatever they are told: scripts
// overwrite MASTER_ADDR with "localhost". Beside that only on the address that is told. On every
// interface where nobody here can know by which of them the clients come:
// - the address is none of this host's (it is that of a container's host, or of a NAT, which sends
//   on what comes to an address of ours);
// - it is a name, which other hosts may resolve to another of our addresses;
// - the daemon, an older one, has not said it.
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

// The same for what is told as text, an address or a name, which is resolved where the clients are
// all on this host. Calls `found` once, at once or from the resolver's loop.
void find_listen_addresses(net::resolver& resolver, const std::string& told, bool has_other_nodes,
                           const std::function<void(std::vector<std::string> addresses)>& found);

}  // namespace ddprun::launcher
