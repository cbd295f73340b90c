// Chooses the interface for this node's workers, and the address under which others reach it, if
// the user has named networks (--network).
//
// Thread rule: a pure function of this node's addresses.
#pragma once

#include "launcher/cli/wanted_networks.hpp"
#include "launcher/network/own_addresses.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

struct network_wish {
  std::vector<wanted_network> networks;  // the first that this node has counts; not empty
  std::string address;      // published on the user's request, a name or an address; empty: none
  bool is_fixed = false;    // use the address even if it is in another network
  bool likes_ipv6 = false;  // if an interface has both; otherwise IPv4
};

struct network_choice {
  std::string interface;
  std::string address;  // numeric, or the wanted one
};

// An address that is not this node's may belong to a NAT in front of it, so it contradicts nothing.
// Errors: none of the networks is here (the message lists what is), or the wanted address is in
// none of them.
cli::parsed<network_choice> choose_network(const network_wish& wish,
                                           const std::vector<interface_address>& own);

}  // namespace ddprun::launcher
