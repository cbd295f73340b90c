#include "launcher/network/network_choice.hpp"

#include "rendezvous/net/resolve.hpp"

#include <algorithm>

namespace ddprun::launcher {
namespace {

using boost::asio::ip::address;

// Such an address needs a scope, which other hosts do not know.
bool is_link_local(const address& one) {
  return one.is_v6() && one.to_v6().is_link_local();
}

bool is_in(const interface_address& one, const wanted_network& network) {
  return network.base ? network.contains(one.value) : one.interface == network.text;
}

std::string option_text(const network_wish& wish) {
  std::string text = "--network=";
  for (const wanted_network& network : wish.networks)
    text += (text.back() == '=' ? "" : ",") + network.text;
  return text;
}

std::string list_of_interfaces(const std::vector<interface_address>& own) {
  std::string text;
  std::string last;
  for (const interface_address& one : own) {
    if (is_link_local(one.value)) continue;
    text += one.interface == last ? ", " : (text.empty() ? "" : "; ") + one.interface + " ";
    text += one.value.to_string();
    last = one.interface;
  }
  return text.empty() ? "no address at all" : text;
}

const interface_address* find_in(const wanted_network& network,
                                 const std::vector<interface_address>& own, bool likes_ipv6) {
  const interface_address* best = nullptr;
  for (const interface_address& one : own) {
    if (!is_in(one, network) || is_link_local(one.value)) continue;
    const bool is_liked = one.value.is_v6() == likes_ipv6;
    if (is_liked) return &one;
    if (best == nullptr) best = &one;
  }
  return best;
}

}  // namespace

cli::parsed<network_choice> choose_network(const network_wish& wish,
                                           const std::vector<interface_address>& own) {
  std::vector<interface_address> sorted = own;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& left, const auto& right) {
    return left.interface < right.interface;
  });
  const auto wished = net::numeric_address(wish.address);
  const auto its = std::find_if(sorted.begin(), sorted.end(), [&](const interface_address& one) {
    return wished && one.value == *wished;
  });
  const bool must_have_it = its != sorted.end() && !wish.is_fixed;
  if (must_have_it) {
    for (const wanted_network& network : wish.networks) {
      // An interface may have several addresses; the wanted one counts.
      if (is_in(*its, network)) return network_choice{its->interface, wish.address};
    }
    return cli::usage_error{option_text(wish) + ": this node was given the address " +
                            wish.address + ", which is on " + its->interface +
                            " and in none of these networks; leave one of the two out"};
  }
  for (const wanted_network& network : wish.networks) {
    const interface_address* const found = find_in(network, sorted, wish.likes_ipv6);
    if (found == nullptr) continue;
    return network_choice{found->interface,
                          wish.address.empty() ? found->value.to_string() : wish.address};
  }
  return cli::usage_error{option_text(wish) + ": this node has no such network; it has " +
                          list_of_interfaces(sorted)};
}

}  // namespace ddprun::launcher
