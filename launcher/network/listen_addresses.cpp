#include "launcher/network/listen_addresses.hpp"

#include "launcher/network/own_addresses.hpp"

#include <algorithm>

namespace ddprun::launcher {

std::vector<std::string> listen_addresses(const std::vector<boost::asio::ip::address>& told) {
  if (told.empty()) return {};
  std::vector<std::string> addresses = {"127.0.0.1", "::1"};
  for (const boost::asio::ip::address& each : told) {
    if (each.is_unspecified() || !is_own_address(each)) return {};
    const std::string text = each.to_string();
    if (std::find(addresses.begin(), addresses.end(), text) == addresses.end()) {
      // Goes first, because loopback addresses may be missing and this one is not.
      addresses.insert(addresses.begin(), text);
    }
  }
  return addresses;
}

void find_listen_addresses(net::resolver& resolver, const std::string& told, bool has_other_nodes,
                           const std::function<void(std::vector<std::string> addresses)>& found) {
  if (const auto numeric = net::numeric_address(told)) return found(listen_addresses({*numeric}));
  if (told.empty() || has_other_nodes) return found({});
  // With a single node, the workers resolve the name just as we do here.
  resolver.start(told, 0, [found](error_code error, const net::endpoints& resolved) {
    std::vector<boost::asio::ip::address> addresses;
    for (const net::tcp::endpoint& each : resolved)
      addresses.push_back(each.address());
    if (error) addresses.clear();
    found(listen_addresses(addresses));
  });
}

}  // namespace ddprun::launcher
