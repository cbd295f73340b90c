// Knows this host's addresses, to decide where the daemon may run.
//
// Thread rule: may be called from any thread. It asks the kernel, never a name server.
#pragma once

#include <boost/asio/ip/address.hpp>

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct interface_address {
  std::string interface;  // "eth0"
  boost::asio::ip::address value;
};

// All addresses of all interfaces, including loopback; IPv6 addresses without their scope.
std::vector<interface_address> own_addresses_by_interface();

// The same without the interfaces' names.
std::vector<boost::asio::ip::address> own_addresses();

// The address from which this host would send to `other`; empty: there is no route. Nothing is
// sent.
std::optional<boost::asio::ip::address> own_address_towards(const boost::asio::ip::address& other);

// The name of the interface with this address; empty: none has it.
std::string interface_with(const boost::asio::ip::address& address);

// True for a loopback address, for the unspecified one (0.0.0.0, ::), and for each of
// `own_addresses`, also if it is mapped to IPv6.
bool is_own_address(const boost::asio::ip::address& address);

// True if another host can reach this one by it: not loopback, not one that needs a scope (fe80::),
// not multicast. 169.254.x.x counts, as on two hosts that share a cable.
bool is_for_others(const boost::asio::ip::address& address);

// True for "localhost" and for this host's name, with or without its domain, ignoring case.
bool is_own_name(const std::string& name);

}  // namespace ddprun::launcher
