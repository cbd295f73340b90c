#include "launcher/agent/listen_addresses.hpp"

#include "launcher/agent/own_addresses.hpp"

#include <algorithm>

namespace ddprun::launcher {

std::vector<std::string> listen_addresses(const std::vector<boost::asio::ip::address>& told) {
  if (told.empty()) return {};
  std::vector<std::string> addresses = {"127.0.0.1", "::1"};
  for (const boost::asio::ip::address& each : told) {
    if (each.is_unspecified() || !is_own_address(each)) return {};
    const std::string text = each.to_string();
    if (std::find(addresses.begin(), addresses.end(), text) == addresses.end()) {
      // The first of all: loopback may be missing, this one not.
      addresses.insert(addresses.begin(), text);
    }
  }
  return addresses;
}

}  // namespace ddprun::launcher
