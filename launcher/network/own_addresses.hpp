// Tells whether an address is one of this host's, to decide where the daemon may live.
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

// All addresses of all interfaces, loopback among them; IPv4 ones as IPv4, IPv6 ones
// without their scope.
std::vector<interface_address> own_addresses_by_interface();

// All addresses of all interfaces, loopback among them; IPv4 ones as IPv4.
std::vector<boost::asio::ip::address> own_addresses();

// The own address from which this host would send to `other`, by its routes; none: there is no
// route. Nothing is sent.
std::optional<boost::asio::ip::address> own_address_towards(const boost::asio::ip::address& other);

// The name of the interface that has this address; empty: none has.
std::string interface_with(const boost::asio::ip::address& address);

// True for a loopback address, for the one that stands for all of this host's (0.0.0.0, ::), and
// for each of `own_addresses`, an IPv4 one mapped to IPv6 too.
bool is_own_address(const boost::asio::ip::address& address);

// True for one by which another host may find this one: no loopback, none that needs a scope beside
// it (fe80::), none that stands for many. 169.254.x.x is one, as it is where two hosts share a
// cable.
bool is_for_others(const boost::asio::ip::address& address);

// True for "localhost" and for this host's name, with or without its domain, in any case.
bool is_own_name(const std::string& name);

}  // namespace ddprun::launcher
