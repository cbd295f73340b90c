// Which interface of this node its workers use, and under which address the others reach it, where
// the person has named networks (--network).
//
// Thread rule: a pure function over the addresses that this node has.
#pragma once

#include "launcher/cli/wanted_networks.hpp"
#include "launcher/network/own_addresses.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

struct network_wish {
  std::vector<wanted_network> networks;  // the first that this node has; not empty
  std::string address;      // published by the person's own will, a name or a number; empty: none
  bool is_fixed = false;    // whatever network it is in
  bool likes_ipv6 = false;  // where an interface has both; else IPv4
};

struct network_choice {
  std::string interface;
  std::string address;  // numeric, or the wished one
};

// An address that is none of this node's may be that of a NAT in front of it, and contradicts
// nothing. Errors: no network is here, with all that are; the wished address is in none of them.
cli::parsed<network_choice> choose_network(const network_wish& wish,
                                           const std::vector<interface_address>& own);

}  // namespace ddprun::launcher
