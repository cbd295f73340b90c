#include "launcher/network/gloo_interface.hpp"

#include "launcher/network/own_addresses.hpp"
#include "rendezvous/net/host_name.hpp"

#include <utility>

namespace ddprun::launcher {

std::string name_problem(const net::endpoints& found) {
  if (found.empty()) return "is not known";
  for (const net::tcp::endpoint& each : found) {
    if (!is_own_address(each.address())) continue;
    if (each.address().is_loopback()) return "is " + each.address().to_string() + " to it";
    return {};
  }
  return "is " + found.front().address().to_string() + ", another host's, to it";
}

void gloo_interface::look_up() {
  resolver_.start(net::full_host_name(), 0,
                  [this](error_code, net::endpoints found) { problem_ = name_problem(found); });
}

std::optional<gloo_interface::choice> gloo_interface::choose(
    const std::vector<std::string>& own) const {
  if (problem_.empty()) return {};
  for (const std::string& text : own) {
    const auto address = net::numeric_address(text);
    if (!address || address->is_loopback()) continue;
    const std::string name = interface_with(*address);
    if (name.empty()) continue;
    return choice{name, "this host's own name " + net::full_host_name() + " " + problem_ +
                            ", where other nodes do not find it: workers get GLOO_SOCKET_IFNAME=" +
                            name + " (" + address->to_string() + "); set it to choose another"};
  }
  return {};
}

}  // namespace ddprun::launcher
