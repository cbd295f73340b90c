// The value of --network: the networks by which nodes may reach each other, the first that a node
// has.
//
// Each is an interface by name ("eth0") or a network by address ("10.0.0.0/8", "fd00::/8"; a single
// address is a network of its own).
#pragma once

#include "rendezvous/cli/usage_error.hpp"

#include <boost/asio/ip/address.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

struct wanted_network {
  std::string text;                              // as typed
  std::optional<boost::asio::ip::address> base;  // empty: `text` is an interface
  unsigned prefix_bits = 0;                      // of `base`

  // Always false for an interface.
  bool contains(const boost::asio::ip::address& address) const;
};

cli::parsed<std::vector<wanted_network>> read_networks(std::string_view given,
                                                       std::string_view value);

}  // namespace ddprun::launcher
