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
// Thread rule: may be called from any thread; asks the kernel, never a name server.
#pragma once

#include <boost/asio/ip/address.hpp>

#include <string>
#include <vector>

namespace ddprun::launcher {

// `told`: every address that a client may dial. The result is numeric; empty: every interface.
std::vector<std::string> listen_addresses(const std::vector<boost::asio::ip::address>& told);

}  // namespace ddprun::launcher
