#include "launcher/agent/node_addresses.hpp"

#include "launcher/network/own_addresses.hpp"
#include "rendezvous/net/resolve.hpp"

#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

// The address from which this host would send there; empty: it is a name, or there is no route.
std::string towards(const std::string& address) {
  const auto other = net::numeric_address(address);
  const auto own = other ? own_address_towards(*other) : std::nullopt;
  return own ? own->to_string() : std::string();
}

}  // namespace

node_addresses::node_addresses(boost::asio::any_io_executor executor, options values)
    : options_(std::move(values)), gloo_(std::move(executor)) {}

// In the static rendezvous the user gave each node the leader's address. The node uses that one, as
// torchrun does, because the first node may have been given "localhost".
std::string node_addresses::of_leader(const std::string& master_address) const {
  return options_.leader.empty() ? master_address : options_.leader;
}

std::string node_addresses::own_for(const std::string& store_address) const {
  if (!options_.published.empty()) return options_.published;
  const std::string own = towards(store_address);
  return own.empty() ? seen_ : own;
}

std::optional<gloo_interface::choice> node_addresses::choose_gloo(
    const assignment& assigned) const {
  if (assigned.group_world_size == 1 || !options_.chooses_gloo) return std::nullopt;
  std::vector<std::string> own = {options_.published, seen_, assigned.master_address};
  // On the daemon's host that sees us at a loopback address, which the other nodes cannot use.
  if (std::string from = towards(assigned.master_address); !from.empty())
    own.push_back(std::move(from));
  return gloo_.choose(own);
}

}  // namespace ddprun::launcher
